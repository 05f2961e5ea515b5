// How a benchmark asks for what a document says. The words are not those of the rows that alignments train on: a question that
// was trained word for word shows memory of the question. Data only.
//
// {e} the thing, {a} the document's own word for what is asked. By concept, the row of the readers' attribute table.

/** Where the document's word is the concept itself. Best first. */
export const byConcept: Readonly<Record<string, readonly string[]>> = {
  founded: ["From which year does the history of {e} count?", "In what year was the foundation of {e} laid?"],
  founder: ["Which person is the one to have founded {e} in the beginning?", "To whom does {e} owe that it exists?"],
  head: [
    "Which person do we have to turn to as the one in charge of {e} these days?",
    "Under whose lead does {e} stand?",
  ],
  role: ["As what is {e} working for the organisation?", "Which task has been given to {e} as a job?"],
  warranty: [
    "For how long after buying does the warranty of {e} hold?",
    "How much time does the guarantee leave a buyer of {e}?",
  ],
  price: [
    "What sum has to be put on the counter as the price for {e}?",
    "Which amount will a buyer be asked to pay for {e}?",
  ],
  place: [
    "At what place would someone who is looking for {e} end up?",
    "Somebody wants to see {e}: which place must be visited?",
  ],
  weight: [
    "What would be read off the scales as the weight of {e}?",
    "How many kilograms or grams does one lift with {e}?",
  ],
  length: ["If someone measures {e}, which length comes out?"],
  height: ["If someone measures {e} upwards, which height comes out?"],
  size: ["If someone measures out {e}, what size comes to light?", "Which figure describes how large {e} is?"],
  capacity: ["What amount can one expect {e} to hold or handle at the most?"],
  power: ["Which figure for power would one read on {e}?"],
  speed: ["Which speed does one reach with {e}?"],
  temperature: ["At which temperature does one have to think of {e}?"],
  battery: ["After what time does the battery of {e} have to be charged again?"],
  delivery: ["What waiting time does one accept when ordering {e}?"],
  material: ["Of what stuff is {e} said to consist?", "If one touches {e}, which material is under the fingers?"],
  colour: ["If one looks at {e}, which colour is to be seen?"],
  budget: [
    "What sum of money stands ready in the budget for {e}?",
    "How much money has been set aside for {e} in all?",
  ],
  people: ["How many people are counted when it comes to {e}?"],
  hours: ["During which hours does one find {e} open?"],
  begin: ["From what time or date on does {e} count as started?"],
  end: ["What is the last date or time that holds for {e}?"],
  contact: ["Which address or number leads to {e}?"],
  approver: ["Whose consent is needed where {e} is concerned?"],
  language: ["In which language does one get along with {e}?"],
};

/** Any attribute that a document names by a noun. */
export const byNoun: readonly string[] = [
  "What is on record as the {a} of {e}?",
  "Somebody asks about {e}: which {a} would you have to name?",
  "Which entry stands under {a} when one looks up {e}?",
];
export const byNounOfPerson: readonly string[] = [
  "Who is on record as the {a} of {e}?",
  "Somebody asks about {e}: who would have to be named as {a}?",
];

/** Nouns in the plural whose value is a number. */
export const byCount: readonly string[] = [
  "Which number is on record for the {a} of {e}?",
  "Somebody counts the {a} of {e}: at what number does the count end?",
];

/** Labels that are no nouns: «gate opens». */
export const byLabel: readonly string[] = [
  "When one looks up {e}, what is to be read beside «{a}»?",
  "Someone needs the entry «{a}» for {e}: what does it say?",
];

/** Around a question that the document's own sentence answers; {q} begins in lower case. */
export const around: readonly string[] = [
  "A colleague would like to know something: {q}",
  "A customer rings up and needs a short answer: {q}",
];

/** A question about what no document knows. */
export const declined = "The documents do not say.";
