// What the company has, and in which words. `says`: how documents put it ({e} the thing, {v} the value, {c} the company).
// `label`: how a table or list heads it. `asks`: how people ask for it, in words that no document uses for it. `about`: what a
// question has to speak of so as to ask for this and nothing else of the same thing. Data only.
import { count, type Draw, date, euros, measure, name, person, type Value, year } from "./draw.ts";

export type KindName = "company" | "site" | "product" | "person" | "contract" | "policy" | "project" | "department";

/** Things drawn so far, so that some are the values of others: who leads the project is a person of whom more is said. */
export type World = Record<KindName, string[]>;

export interface Attribute {
  key: string;
  label: string;
  says: string[];
  asks: string[];
  about: RegExp;
  draw(draw: Draw, world: World, at: number): Value;
}

/** The next of those there are, or one of whom nothing more is said. */
const taken = (list: readonly string[], at: number, or: () => string): string => list[at] ?? or();

const material = [
  "oiled larch",
  "pressed cork",
  "enamelled steel",
  "smoked glass",
  "cast zinc",
  "woven hemp",
  "black slate",
  "spun copper",
  "waxed canvas",
  "glazed clay",
  "brushed tin",
  "bent willow",
  "hammered brass",
  "layered birch",
  "matt ceramic",
  "recycled nylon",
];
const goods = [
  "steel tubing",
  "rubber seals",
  "packing straw",
  "copper wire",
  "linen thread",
  "glass jars",
  "ball bearings",
  "cedar planks",
  "machine oil",
  "printed labels",
  "leather straps",
  "felt pads",
  "cork stoppers",
  "salt bricks",
  "paper sacks",
  "brass screws",
];
const roles = [
  "purchasing clerk",
  "night watchman",
  "welding instructor",
  "payroll accountant",
  "forklift driver",
  "export adviser",
  "laboratory chemist",
  "crane operator",
  "archive keeper",
  "tool grinder",
  "shift planner",
  "dispatch supervisor",
  "paint mixer",
  "customs agent",
  "apprentice tutor",
  "quality inspector",
  "pattern maker",
  "fire warden",
  "translator",
  "kiln operator",
];

const lists = { material, goods, roles };
const cycle = (key: keyof typeof lists, draw: Draw): string => {
  const list = lists[key];
  return list[draw.fresh(key, 0, list.length - 1)]!;
};

export const company: Attribute[] = [
  {
    key: "founded",
    label: "Founded",
    says: [
      "{e} was founded in {v}.",
      "The history of {e} begins in {v}, when it was founded.",
      "{e} was founded as a two-person workshop in {v}.",
    ],
    asks: [
      "For how many decades, counting from which year, has {e} existed?",
      "What year marks the birth of {e}?",
      "Tell me the year {e} first traded.",
    ],
    about: /year|decades|found|establish|begin|exist|birth|start|old|set up|came into/i,
    draw: (draw) => year(draw.int(1881, 1989)),
  },
  {
    key: "founder",
    label: "Founder",
    says: ["{v} founded the firm with borrowed tools.", "The founder was {v}.", "It was founded by {v}."],
    asks: ["Whose brainchild is {e}?", "Who called {e} into being?", "To which person does {e} owe its existence?"],
    about: /founder|founded|brainchild|being|existence|set up|started|establish|behind|owe/i,
    draw: (draw) => person(draw.person()),
  },
  {
    key: "head_office",
    label: "Head office",
    says: [
      "The head office is in {v}.",
      "{e} has its head office in {v}.",
      "The head office of {e} looks out over the canal in {v}.",
    ],
    asks: [
      "In which town does the management of {e} work?",
      "From what town is {e} directed?",
      "Where would I meet the directors of {e}?",
    ],
    about: /head office|headquarter|based|management|directed|directors|where|town/i,
    draw: (draw) => name(draw.place()),
  },
  {
    key: "employees",
    label: "Employees",
    says: [
      "{e} employs {v} people.",
      "Some of the {v} employees have been with {e} all their working lives.",
      "In all, {e} has {v} employees.",
    ],
    asks: [
      "How big is the workforce of {e}?",
      "How many wages does {e} pay each month?",
      "What number of staff can {e} count on?",
    ],
    about: /workforce|employ|staff|people|wages|work for|headcount/i,
    draw: (draw) => count(draw.int(140, 960)),
  },
  {
    key: "auditor",
    label: "Auditor",
    says: ["The accounts are audited by {v}.", "{v} audits the accounts.", "The auditor of {e} is {v}."],
    asks: [
      "Which firm goes through the books of {e} once a year?",
      "Who checks whether the figures of {e} are right?",
      "Whose signature confirms the balance sheet of {e}?",
    ],
    about: /audit|books|figures|accounts|balance/i,
    draw: (draw) => name(draw.firm()),
  },
  {
    key: "chair",
    label: "Chair of the board",
    says: ["{v} chairs the board.", "The chair of the board is {v}.", "The board of {e} is chaired by {v}."],
    asks: [
      "Who presides when the directors of {e} meet?",
      "Whose word closes a debate among the directors of {e}?",
      "Name the person at the top of {e}'s supervisory body.",
    ],
    about: /chair|presid|directors|board|supervis/i,
    draw: (draw) => person(draw.person()),
  },
  {
    key: "export_share",
    label: "Export share",
    says: ["Exports make up {v} of sales.", "The export share has reached {v}.", "Of all sales, {v} are exports."],
    asks: [
      "What part of {e}'s turnover is earned abroad?",
      "How much of what {e} sells leaves the country?",
      "Foreign customers account for which percentage at {e}?",
    ],
    about: /export|abroad|leaves the country|foreign|share/i,
    draw: (draw) => ({ text: `${draw.int(11, 78)} %`, aliases: [], type: "short" }),
  },
  {
    key: "patron",
    label: "Sponsored club",
    says: [
      "{e} sponsors the rowing club of {v}.",
      "The rowing club of {v} is sponsored by {e}.",
      "For years {e} has sponsored the rowing club of {v}.",
    ],
    asks: [
      "Which town's oarsmen get money from {e}?",
      "Where do the athletes live who wear {e}'s name on their boats?",
      "{e} supports water sports in what place?",
    ],
    about: /club|oarsmen|athletes|water sports|rowing|sponsor/i,
    draw: (draw) => name(draw.place()),
  },
];
export const site: Attribute[] = [
  {
    key: "town",
    label: "Location",
    says: ["{e} is located in {v}.", "{e} stands in {v}, close to the railway.", "The location of {e} is {v}."],
    asks: [
      "To which town would I travel for a visit to {e}?",
      "What town does one drive to when going to {e}?",
      "Name the municipality that {e} belongs to.",
    ],
    about: /town|travel|drive|municipal|where|locat|place|city|stand/i,
    draw: (draw) => name(draw.place()),
  },
  {
    key: "manager",
    label: "Manager",
    says: [
      "{e} is managed by {v}.",
      "The manager of {e} is {v}.",
      "{v} has managed {e} since the last reorganisation.",
    ],
    asks: [
      "Who has the final say at {e}?",
      "Who is the boss of everybody at {e}?",
      "Whom do the foremen of {e} report to?",
    ],
    about: /final say|boss|report to|manage|charge|runs?\b|lead|head|respons/i,
    draw: (draw, world, at) => person(taken(world.person, at, draw.person)),
  },
  {
    key: "opened",
    label: "Opened",
    says: [
      "{e} was opened in {v}.",
      "{e} opened in {v}, after two years of building.",
      "It was in {v} that {e} was opened.",
    ],
    asks: [
      "Production got going at {e} in what year?",
      "Since which year have machines been turning at {e}?",
      "What year was the ribbon cut at {e}?",
    ],
    about: /year|since|open|when|start|old/i,
    draw: (draw) => year(draw.fresh("opened", 1962, 2018)),
  },
  {
    key: "area",
    label: "Floor area",
    says: [
      "The floor area of {e} is {v}.",
      "{e} has a floor area of {v}.",
      "With a floor area of {v}, {e} is easy to find on any map.",
    ],
    asks: [
      "How much room is there under the roofs of {e}?",
      "How spacious is {e}?",
      "Over what surface do the halls of {e} spread?",
    ],
    about: /room|spacious|surface|area|large|big|size|space|measurements/i,
    draw: (draw) => measure(draw.fresh("area", 2300, 5900, 100), "square metres"),
  },
  {
    key: "staff",
    label: "Staff",
    says: ["{e} has a staff of {v}.", "The staff of {e} numbers {v}.", "A staff of {v} keeps {e} going."],
    asks: [
      "How many people earn their living at {e}?",
      "What headcount would a visitor to {e} arrive at?",
      "If everyone at {e} shows up, how many are there?",
    ],
    about: /people|headcount|everyone|staff|employ|how many|work/i,
    draw: (draw) => count(draw.fresh("staff", 31, 97)),
  },
  {
    key: "gate",
    label: "Gate opens",
    says: [
      "The gate of {e} opens at {v}.",
      "At {v} the gate of {e} opens for deliveries.",
      "Drivers know that the gate of {e} opens at {v}.",
    ],
    asks: [
      "What is the earliest hour a lorry can enter {e}?",
      "From what time of day are vans let into {e}?",
      "A driver bound for {e} should not arrive before when?",
    ],
    about: /hour|time|gate|arrive|enter|open|let in/i,
    draw: (draw) => name(`${draw.int(5, 7)}:${draw.fresh("gate", 10, 55)}`),
  },
];
export const product: Attribute[] = [
  {
    key: "price",
    label: "Price",
    says: ["The price of {e} is {v}."],
    asks: [
      "What would I have to spend to get {e}?",
      "How many euros should a buyer reckon with for {e}?",
      "What does the till show when I take {e}?",
    ],
    about: /spend|euros|buyer|till|cost|price|pay|expensive|charge|sell|money/i,
    draw: (draw, _, at) => euros(draw.fresh(`price ${at % 4}`, 180 + 70 * (at % 4), 248 + 70 * (at % 4))),
  },
  {
    key: "weight",
    label: "Weight",
    says: ["The weight of {e} is {v}."],
    asks: [
      "What do the scales say under {e}?",
      "How much do I lift when I pick up {e}?",
      "Is {e} hard to carry; what is its mass?",
    ],
    about: /scales|lift|mass|heavy|weigh|carry/i,
    draw: (draw, _, at) => measure(draw.fresh(`weight ${at % 4}`, 21, 89) / 10, "kg"),
  },
  {
    key: "warranty",
    label: "Warranty",
    says: ["The warranty on {e} is {v}."],
    asks: [
      "How long are faults of {e} put right free of charge?",
      "For what length of time am I covered if {e} breaks?",
      "Until how long after the sale can I complain about {e}?",
    ],
    about: /fault|covered|complain|warrant|guarantee|breaks/i,
    draw: (draw) => measure(draw.int(14, 62, 2), "months"),
  },
  {
    key: "launched",
    label: "Launched",
    says: ["{e} was launched in {v}."],
    asks: [
      "Customers could first buy {e} in what year?",
      "What year saw {e} come onto the market?",
      "In the catalogue of which year did {e} make its debut?",
    ],
    about: /year|market|debut|launch|first|when|since/i,
    draw: (draw) => year(draw.int(1994, 2024)),
  },
  {
    key: "shelf",
    label: "Shelf",
    says: ["{e} is kept on shelf {v}."],
    asks: [
      "In the warehouse, what code leads the picker to {e}?",
      "Under what mark is {e} stored?",
      "Which compartment holds {e}?",
    ],
    about: /code|mark|compartment|shelf|where|stored|kept|find|place|room/i,
    draw: (draw) => name(`${draw.one(["B", "C", "F", "K"])}-${draw.fresh("shelf", 112, 498)}`),
  },
];
export const productPage: Attribute[] = [
  {
    key: "designer",
    label: "Designer",
    says: ["{e} was designed by {v}.", "The designer of {e} is {v}.", "{v} designed {e} in a single winter."],
    asks: ["Who thought up {e}?", "From whose drawing board does {e} come?", "Who gave {e} its shape?"],
    about: /thought up|drawing|shape|design|creat|develop|invent|behind|drew/i,
    draw: (draw, world, at) => person(taken(world.person, world.person.length - 1 - at, draw.person)),
  },
  {
    key: "housing",
    label: "Housing",
    says: [
      "The housing of {e} is made of {v}.",
      "{e} comes in a housing of {v}.",
      "For the housing of {e} we use {v}.",
    ],
    asks: [
      "What is the outside of {e} made from?",
      "Which material does one touch when holding {e}?",
      "What stuff wraps {e}?",
    ],
    about: /outside|material|stuff|hous|made|consist|touch/i,
    draw: (draw) => name(cycle("material", draw)),
  },
  {
    key: "made_at",
    label: "Built at",
    says: ["{e} is built at {v}.", "{e} has always been built at {v}.", "We build {e} at {v}."],
    asks: [
      "Which of the works turns out {e}?",
      "At what site does {e} leave the assembly line?",
      "Whose workers put {e} together, at which site?",
    ],
    about: /works|site|assembl|where|built|made|produc|put .*together|plant/i,
    draw: (draw, world, at) => name(world.site[at % Math.max(1, world.site.length)] ?? `${draw.word()} Works`),
  },
];
export const people: Attribute[] = [
  {
    key: "role",
    label: "Position",
    says: ["{e} joins us as {v}.", "{e} is our new {v}.", "Please welcome {e}, who takes over as {v}."],
    asks: ["What does {e} do for a living?", "In what capacity is {e} on the payroll?", "What job was {e} hired for?"],
    about: /do for|living|capacity|job|role|position|work|hired|profession|task|who is/i,
    draw: (draw) => name(cycle("roles", draw)),
  },
  {
    key: "room",
    label: "Room",
    says: ["{e} can be found in room {v}.", "The desk of {e} is in room {v}.", "{e} has moved into room {v}."],
    asks: [
      "Behind which door number does {e} sit?",
      "Where in the building would I knock to see {e}?",
      "What number is on {e}'s office door?",
    ],
    about: /door|building|office|room|where|desk|sit|find/i,
    draw: (draw) => name(String(draw.fresh("room", 104, 348))),
  },
  {
    key: "extension",
    label: "Extension",
    says: [
      "The extension of {e} is {v}.",
      "{e} can be reached on extension {v}.",
      "Calls for {e} go to extension {v}.",
    ],
    asks: [
      "What do I dial to speak with {e}?",
      "Which digits ring the telephone of {e}?",
      "How do I get {e} on the phone?",
    ],
    about: /dial|telephone|phone|digits|extension|call|ring|reach/i,
    draw: (draw) => name(String(draw.fresh("extension", 4102, 4989))),
  },
  {
    key: "joined",
    label: "First day",
    says: ["The first day of {e} is {v}.", "{e} starts on {v}.", "On {v} {e} starts with us."],
    asks: [
      "From what date has {e} belonged to the company?",
      "When did {e} come on board?",
      "Since when does {e} draw a salary here?",
    ],
    about: /date|when|since|start|first day|join|begin/i,
    draw: (draw) => date(draw.int(1, 28), draw.int(1, 12), draw.int(2009, 2025)),
  },
  {
    key: "former",
    label: "Previous employer",
    says: ["Before that, {e} worked for {v}.", "{e} comes to us from {v}.", "Until now {e} was employed by {v}."],
    asks: [
      "Which firm lost {e} to us?",
      "Who paid {e} in the job before this one?",
      "What is the earlier workplace of {e} called?",
    ],
    about: /lost|before|earlier|previous|former|employer|come from|comes from|worked for|until now/i,
    draw: (draw) => name(draw.firm()),
  },
];
export const contract: Attribute[] = [
  {
    key: "goods",
    label: "Goods",
    says: ["{e} supplies {v} to {c}.", "{c} is supplied with {v} by {e}.", "Under this agreement {e} supplies {v}."],
    asks: [
      "What arrives on the lorries of {e}?",
      "What would we run out of without {e}?",
      "Which merchandise do we owe to {e}?",
    ],
    about: /arriv|run out|merchandise|suppl|deliver|goods|provide|what does|sell/i,
    draw: (draw) => name(cycle("goods", draw)),
  },
  {
    key: "worth",
    label: "Annual value",
    says: [
      "The annual value of the agreement with {e} is {v}.",
      "The agreement with {e} has an annual value of {v}.",
      "For {e} the annual value comes to {v}.",
    ],
    asks: [
      "How much money flows to {e} in twelve months?",
      "What sum does {e} earn from us every year?",
      "How large is our yearly bill from {e}?",
    ],
    about: /money|sum|bill|value|worth|cost|pay|amount|how much/i,
    draw: (draw) => euros(draw.fresh("worth", 61_000, 248_000, 1000)),
  },
  {
    key: "ends",
    label: "End of term",
    says: [
      "The agreement with {e} ends on {v}.",
      "The term of the agreement with {e} ends on {v}.",
      "On {v} the agreement with {e} ends.",
    ],
    asks: [
      "After which date is {e} no longer bound to us?",
      "What is the last day we can count on {e}?",
      "Up to when may we order from {e} on these conditions?",
    ],
    about: /date|last day|when|end|expire|until|term/i,
    draw: (draw) => date(draw.int(1, 28), draw.int(1, 12), draw.int(2027, 2034)),
  },
  {
    key: "notice",
    label: "Notice period",
    says: [
      "The notice period towards {e} is {v}.",
      "Either side may end the agreement with {e} with a notice period of {v}.",
      "A notice period of {v} applies to {e}.",
    ],
    asks: [
      "How far ahead must {e} be warned if we want out?",
      "How early do we have to tell {e} that we are leaving?",
      "If we wish to part with {e}, how much warning is due?",
    ],
    about: /ahead|early|warn|notice|leav|cancel/i,
    draw: (draw) => measure(draw.int(5, 52), "weeks"),
  },
  {
    key: "contact",
    label: "Contact",
    says: ["Our contact at {e} is {v}.", "The contact for all questions at {e} is {v}.", "At {e}, {v} is our contact."],
    asks: [
      "Who at {e} answers when we have a problem?",
      "Whom do I ask for when I ring {e}?",
      "Name the person who looks after us at {e}.",
    ],
    about: /who|whom|person|contact|answer/i,
    draw: (draw) => person(draw.person()),
  },
];
export const project: Attribute[] = [
  {
    key: "lead",
    label: "Lead",
    says: ["{e} is led by {v}.", "{v} leads {e}.", "The lead of {e} is {v}."],
    asks: ["Who pulls the strings in {e}?", "Who answers to the board for {e}?", "Whose team carries out {e}?"],
    about: /strings|answers to|team|lead|head|charge|respons|runs?\b|manage/i,
    draw: (draw, world, at) => person(taken(world.person, 5 + at, draw.person)),
  },
  {
    key: "budget",
    label: "Budget",
    says: ["{e} has a budget of {v}.", "The budget of {e} is {v}.", "A budget of {v} was granted to {e}."],
    asks: [
      "How much may be spent on {e} altogether?",
      "What funds have been set aside for {e}?",
      "At what sum does the purse for {e} close?",
    ],
    about: /spent|funds|sum|budget|money|cost/i,
    draw: (draw) => euros(draw.fresh("budget", 112_000, 389_000, 1000)),
  },
  {
    key: "due",
    label: "Completion",
    says: [
      "Completion of {e} is planned for {v}.",
      "{e} is to be completed by {v}.",
      "The completion date of {e} is {v}.",
    ],
    asks: [
      "By what day has {e} got to be over and done?",
      "When will everything in {e} be ready?",
      "What deadline hangs over {e}?",
    ],
    about: /day|when|deadline|complet|finish|done|end/i,
    draw: (draw) => date(draw.int(1, 28), draw.int(1, 12), draw.int(2027, 2031)),
  },
  {
    key: "client",
    label: "Client",
    says: ["The client of {e} is {v}.", "{e} is carried out for the client {v}.", "{v} is the client of {e}."],
    asks: [
      "Who placed the order that led to {e}?",
      "For whose benefit is {e} being done?",
      "Which firm foots the bill for {e}?",
    ],
    about: /order|benefit|bill|client|customer|for whom|commission/i,
    draw: (draw) => name(draw.firm()),
  },
];
export const department: Attribute[] = [
  {
    key: "head",
    label: "Head",
    says: ["The head of {e} is {v}."],
    asks: [
      "Whose orders do the people in {e} follow?",
      "Who is the superior of everybody in {e}?",
      "Who signs the holiday slips of {e}?",
    ],
    about: /orders|superior|signs|head|lead|charge|runs?\b|manage|boss|respons/i,
    draw: (draw) => person(draw.person()),
  },
  {
    key: "building",
    label: "Building",
    says: ["{e} is housed in {v}."],
    asks: [
      "Which roof is over the desks of {e}?",
      "Where do the people of {e} hang up their coats?",
      "What is the house called that {e} occupies?",
    ],
    about: /roof|where|house|building|located|place|occup|sit/i,
    draw: (draw) => name(`${draw.word()} House`),
  },
  {
    key: "size",
    label: "Employees",
    says: ["{e} has {v} employees."],
    asks: [
      "How many chairs are taken in {e}?",
      "What is the strength of {e} in heads?",
      "How many colleagues belong to {e}?",
    ],
    about: /chairs|heads|colleagues|employ|people|staff|how many|number/i,
    draw: (draw) => count(draw.fresh("size", 12, 58)),
  },
  {
    key: "cost_centre",
    label: "Cost centre",
    says: ["The cost centre of {e} is {v}."],
    asks: [
      "Which number do invoices for {e} have to carry?",
      "To what account are the expenses of {e} booked?",
      "How does bookkeeping label the spending of {e}?",
    ],
    about: /number|account|bookkeeping|cost cent|invoice|expenses/i,
    draw: (draw) => name(String(draw.fresh("cost", 71_020, 71_980, 10))),
  },
];
