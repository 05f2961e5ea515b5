// The rules of the house: each policy has rules of its own, so its words are not those of any other thing. Read it with the head
// of kinds.ts; {e} is the company.
import { type Draw, euros, measure, name, type Value } from "./draw.ts";
import type { Attribute } from "./kinds.ts";

export interface Policy {
  title: string;
  intro: string;
  rules: Attribute[];
}

const rule = (
  key: string,
  label: string,
  say: string,
  asks: [string, string],
  about: RegExp,
  draw: (draw: Draw) => Value,
): Attribute => ({ key, label, says: [say], asks, about, draw });
const days =
  (low: number, high: number, unit = "days") =>
  (draw: Draw) =>
    measure(draw.int(low, high), unit);
const money =
  (low: number, high: number, step = 1) =>
  (draw: Draw) =>
    euros(draw.int(low, high, step));

export const policies: Policy[] = [
  {
    title: "Travel policy",
    intro: "This policy applies to everybody who travels on behalf of the company.",
    rules: [
      rule(
        "hotel",
        "Hotel limit",
        "A hotel room may cost at most {v} a night.",
        [
          "What is the dearest bed for one night that {e} accepts on a trip?",
          "When {e} sends me away overnight, how much may the lodging come to?",
        ],
        /bed|lodging|hotel|room|night/i,
        money(83, 164),
      ),
      rule(
        "meals",
        "Meal allowance",
        "The meal allowance is {v} a day.",
        [
          "How much does {e} give its travellers for food each day?",
          "On the road for {e}, what daily sum is there to eat from?",
        ],
        /food|eat|meal/i,
        money(23, 58),
      ),
      rule(
        "claims",
        "Claims",
        "Travel claims must be filed within {v} of the return.",
        [
          "How quickly after coming home must {e} get the trip's expenses?",
          "How long can a traveller of {e} wait before asking for the money back?",
        ],
        /expenses|money back|claim|filed|submit/i,
        days(9, 41),
      ),
      rule(
        "mileage",
        "Mileage rate",
        "For private cars the mileage rate is {v} a kilometre.",
        [
          "Driving my own vehicle for {e}, what do I get per kilometre?",
          "What does {e} refund for every kilometre in one's own car?",
        ],
        /kilomet|own vehicle|mileage|car/i,
        (draw) => measure(draw.int(21, 49), "cents"),
      ),
    ],
  },
  {
    title: "Leave policy",
    intro: "Leave is granted by the supervisor and entered in the calendar.",
    rules: [
      rule(
        "holiday",
        "Annual leave",
        "Annual leave is {v} for a full year.",
        ["How many days off does {e} grant in twelve months?", "What is the yearly vacation at {e}?"],
        /days off|vacation|annual leave|holiday|leave/i,
        days(24, 37, "working days"),
      ),
      rule(
        "carry",
        "Carry-over",
        "Unused leave can be carried over until the end of {v}.",
        [
          "At {e}, in which month does last year's vacation lapse?",
          "Up to what month does {e} let people use up old holidays?",
        ],
        /lapse|old holidays|unused|carr/i,
        (draw) => name(draw.one(["February", "April", "May", "June", "July"])),
      ),
      rule(
        "wedding",
        "Wedding",
        "For a wedding in the family {v} of special leave are granted.",
        [
          "If my sister marries, how much free time does {e} give me?",
          "How long may one stay away from {e} to celebrate a marriage of relatives?",
        ],
        /marri|wedding/i,
        days(2, 9, "days"),
      ),
      rule(
        "sick",
        "Sick note",
        "A sick note is required after {v} of illness.",
        [
          "From how long an absence on does {e} want to see the doctor's paper?",
          "How long can I be ill at {e} without a certificate?",
        ],
        /doctor|certificate|sick|ill/i,
        days(2, 8, "days"),
      ),
    ],
  },
  {
    title: "Remote work policy",
    intro: "Remote work is possible wherever the tasks allow it.",
    rules: [
      rule(
        "remote",
        "Remote days",
        "Employees may work remotely on {v} a month.",
        [
          "How often per month does {e} let people stay at home with their laptop?",
          "How many home office days are there at {e} in four weeks?",
        ],
        /home|remote/i,
        days(3, 13),
      ),
      rule(
        "core",
        "Core hours",
        "Core hours begin at {v}.",
        ["By what time must everybody at {e} be reachable?", "When does the mandatory part of the day begin at {e}?"],
        /reachable|mandatory|core/i,
        (draw) => name(`${draw.int(8, 10)}:${draw.int(10, 50, 5)}`),
      ),
      rule(
        "furniture",
        "Furniture allowance",
        "The allowance for furniture at home is {v}.",
        [
          "How much does {e} chip in for a desk and chair in one's flat?",
          "What is the subsidy of {e} for furnishing a home workplace?",
        ],
        /desk|furnish|furniture/i,
        money(160, 480, 10),
      ),
      rule(
        "approver",
        "Approval",
        "Remote work abroad is approved by the {v}.",
        [
          "Who at {e} has to agree before I work from another country?",
          "Whose permission does {e} demand for working on a foreign beach?",
        ],
        /agree|permission|approv/i,
        (draw) =>
          name(draw.one(["works council", "tax adviser", "chief counsel", "insurance desk", "staff committee"])),
      ),
    ],
  },
  {
    title: "Purchasing policy",
    intro: "Money is spent with the same care as if it were one's own.",
    rules: [
      rule(
        "signature",
        "Second signature",
        "Orders above {v} need a second signature.",
        [
          "From what amount on does a purchase at {e} take two people?",
          "How big can an order at {e} be with one name under it?",
        ],
        /two people|one name|signature/i,
        money(1200, 9400, 100),
      ),
      rule(
        "quotes",
        "Quotes",
        "Larger orders require {v} from different suppliers.",
        ["How many offers must be compared at {e} before a big purchase?", "What number of bids does {e} collect?"],
        /offers|bids|quotes/i,
        (draw) => measure(draw.int(3, 7), "quotes"),
      ),
      rule(
        "archive",
        "Archiving",
        "Invoices are archived for {v}.",
        ["How long are old bills stored at {e}?", "After what time may {e} shred a paid bill?"],
        /bills?|invoice|archiv/i,
        days(8, 19, "years"),
      ),
      rule(
        "payment",
        "Payment target",
        "Invoices are paid within {v}.",
        [
          "How long does a creditor of {e} wait for the money at most?",
          "What is the deadline for {e} to settle what it owes?",
        ],
        /creditor|settle|paid|pay/i,
        days(12, 44),
      ),
    ],
  },
  {
    title: "Safety rules",
    intro: "Safety comes before speed in every hall.",
    rules: [
      rule(
        "drill",
        "Fire drill",
        "A fire drill is held every {v}.",
        [
          "How often does {e} practise leaving the building in an emergency?",
          "At what interval are evacuations rehearsed at {e}?",
        ],
        /practise|evacuat|drill/i,
        days(5, 19, "weeks"),
      ),
      rule(
        "noise",
        "Noise limit",
        "Ear protection is required above {v}.",
        ["How loud must it be at {e} before one has to cover one's ears?", "At {e}, what loudness calls for plugs?"],
        /loud|noise|ear/i,
        (draw) => measure(draw.int(71, 89), "decibels"),
      ),
      rule(
        "ladder",
        "Ladder check",
        "Ladders are inspected every {v}.",
        [
          "How much time passes at {e} between two looks at the steps people climb?",
          "At what rhythm does {e} examine what people climb on?",
        ],
        /climb|ladder/i,
        days(3, 17, "months"),
      ),
      rule(
        "report",
        "Accident report",
        "Accidents must be reported within {v}.",
        [
          "How soon does {e} have to hear that someone got hurt?",
          "If I am injured at {e}, how long have I got to tell?",
        ],
        /hurt|injur|accident/i,
        days(2, 47, "hours"),
      ),
    ],
  },
  {
    title: "Returns policy",
    intro: "What a customer does not want comes back to the depot.",
    rules: [
      rule(
        "window",
        "Return window",
        "Unused goods can be returned within {v}.",
        [
          "How long can a customer of {e} change their mind?",
          "Until how many days after delivery does {e} take things back?",
        ],
        /mind|take things back|return/i,
        days(13, 88),
      ),
      rule(
        "fee",
        "Restocking fee",
        "A restocking fee of {v} is charged.",
        [
          "What does {e} keep for itself when an article goes back into store?",
          "What deduction does a buyer face when sending something back to {e}?",
        ],
        /keep for itself|deduction|fee|restock/i,
        money(9, 46),
      ),
      rule(
        "refund",
        "Refund",
        "Refunds are paid within {v}.",
        [
          "How long does it take until {e} has sent the money back?",
          "When can a buyer who gave something back to {e} expect to be repaid?",
        ],
        /money back|repaid|refund/i,
        days(4, 26),
      ),
      rule(
        "form",
        "Form",
        "Returns are announced on form {v}.",
        [
          "Which sheet does {e} want filled in before things are sent back?",
          "What paper has to be completed for a parcel going back to {e}?",
        ],
        /sheet|paper|form/i,
        (draw) => name(`R${draw.int(12, 97)}`),
      ),
    ],
  },
  {
    title: "Training policy",
    intro: "Learning is part of everybody's work.",
    rules: [
      rule(
        "budget",
        "Training budget",
        "The training budget is {v} per person and year.",
        [
          "How much may each colleague at {e} spend on courses annually?",
          "What does {e} invest per head in further education?",
        ],
        /courses|education|training/i,
        money(420, 1880, 20),
      ),
      rule(
        "hours",
        "Training hours",
        "Every employee is given {v} of training a year.",
        [
          "How many hours does {e} free people up for learning?",
          "What amount of schooling does each person at {e} get?",
        ],
        /learning|schooling|training/i,
        days(14, 63, "hours"),
      ),
      rule(
        "mentor",
        "Mentor",
        "New employees have a mentor for {v}.",
        [
          "How long is a beginner at {e} accompanied by someone experienced?",
          "For what time does {e} put an old hand beside the newcomer?",
        ],
        /beginner|newcomer|mentor/i,
        days(5, 29, "weeks"),
      ),
      rule(
        "payback",
        "Repayment",
        "Course fees are repaid by whoever leaves within {v}.",
        [
          "How long must one stay with {e} after an expensive course?",
          "If I quit {e} after a seminar, up to when do I owe the fees?",
        ],
        /stay|quit|fees|leaves/i,
        days(7, 31, "months"),
      ),
    ],
  },
  {
    title: "Computer rules",
    intro: "These rules protect the data of customers and colleagues.",
    rules: [
      rule(
        "password",
        "Password length",
        "A password has at least {v}.",
        ["How long does {e} want a log-in secret to be?", "What is the shortest secret the machines of {e} accept?"],
        /secret|password/i,
        (draw) => measure(draw.int(11, 23), "characters"),
      ),
      rule(
        "lock",
        "Screen lock",
        "Screens lock after {v}.",
        [
          "How long can I leave my monitor at {e} before it shuts me out?",
          "After what pause do the displays of {e} go dark for strangers?",
        ],
        /monitor|display|screen/i,
        days(3, 18, "minutes"),
      ),
      rule(
        "backup",
        "Backup",
        "The backup runs at {v}.",
        ["At what time of night does {e} copy its data?", "When are the files of {e} saved a second time?"],
        /copy|saved|backup/i,
        (draw) => name(`${draw.int(1, 4)}:${draw.int(10, 55, 5)}`),
      ),
      rule(
        "desk",
        "Help desk",
        "The help desk answers within {v}.",
        [
          "How long until someone at {e} reacts when my laptop is broken?",
          "What reaction time do the computer people of {e} promise?",
        ],
        /react|help desk|answer/i,
        days(15, 95, "minutes"),
      ),
    ],
  },
];
