// What things have: a price, a weight, a place, a maker. Data only; read it with the head of attributes.ts.
import type { Attribute } from "./attributes.ts";
import type { ValueKind } from "./values.ts";

const size: ValueKind[] = ["measure", "number"];

export const things: Record<string, Attribute> = {
  price: {
    nouns: "price|cost|list price|unit price|fee|rate|charge|tariff|amount|retail price|net price|price each",
    verbs: "cost|sell for|price at|charge|sell at",
    kinds: ["money"],
    ask: "How much does {e} cost? | What is the price of {e}? | How expensive is {e}? | What do I pay for {e}? | What does {e} sell for? | How much money do I need for {e}? | What is charged for {e}? | If I order {e}, what will it cost me?",
    tell: "{e} costs {v}.",
    which: "Which one costs {v}?",
  },
  place: {
    nouns:
      "location|place|headquarters|head office|address|site|city|town|seat|base|where|venue|region|country|hall|building|room|shelf|area",
    verbs:
      "locate in|base in|headquarter in|sit in|stand in|situate in|be in|be at|operate from|locate at|stand at|sit on|lie in|live in|be on|keep in|store in|hang in|house in|keep at|store at|locate on",
    kinds: ["name", "text", "code"],
    ask: "Where is {e}? | In which {a} is {e}? | Where is {e} located? | In which place do I find {e}? | Where can {e} be found? | What is the location of {e}? | Where is {e} based? | Where would I have to go for {e}? | Which place is home to {e}?",
    tell: "{e} is in {v}.",
    which: "What is located in {v}?",
  },
  weight: {
    nouns: "weight|mass|net weight|total weight|shipping weight",
    verbs: "weigh",
    kinds: size,
    ask: "How heavy is {e}? | How much does {e} weigh? | What is the weight of {e}? | What does {e} weigh? | What weight does {e} have? | If I put {e} on a scale, what does it show?",
    tell: "{e} weighs {v}.",
    which: "Which one weighs {v}?",
  },
  length: {
    nouns: "length|depth|range|reach|distance",
    verbs: "measure|stretch|reach|span|extend for",
    kinds: size,
    ask: "How long is {e}? | What is the {a} of {e}? | What length does {e} have? | How far does {e} reach? | How many metres or millimetres is {e}? | What {a} does {e} have?",
    tell: "{e} has a {a} of {v}.",
  },
  height: {
    nouns: "height|elevation|altitude",
    verbs: "rise to|tower",
    ask: "How high is {e}? | How tall is {e}? | What is the height of {e}? | What height does {e} have? | What does {e} measure from bottom to top?",
    tell: "{e} is {v} high.",
  },
  size: {
    nouns: "size|dimensions|width|diameter|area|floor area|thickness|volume",
    verbs: "cover|occupy",
    kinds: size,
    ask: "How big is {e}? | How large is {e}? | What size is {e}? | What is the {a} of {e}? | What {a} does {e} have? | What are the measurements of {e}?",
    tell: "{e} has a {a} of {v}.",
  },
  capacity: {
    nouns:
      "capacity|load|maximum load|payload|tank capacity|storage|memory|throughput|output|yield|seats|volume|tank|tank volume",
    verbs: "hold|carry|store|contain|seat|accommodate|produce|process|handle|take",
    kinds: size,
    ask: "How much can {e} hold? | What is the capacity of {e}? | How much fits into {e}? | How much does {e} take at most? | What {a} does {e} have? | What is the {a} of {e}? | How much can {e} handle?",
    tell: "{e} has a {a} of {v}.",
    which: "Which one has a capacity of {v}?",
  },
  power: {
    nouns:
      "power|power consumption|consumption|wattage|voltage|supply voltage|current|energy use|power draw|rated power",
    verbs: "draw|consume|need|use|require",
    kinds: ["measure"],
    ask: "How much power does {e} need? | What is the {a} of {e}? | How much electricity does {e} use? | What does {e} draw from the mains? | What {a} does {e} have? | How much does {e} consume?",
    tell: "{e} has a {a} of {v}.",
  },
  speed: {
    nouns: "speed|top speed|velocity|rate of flow|flow rate|flow",
    verbs: "run at|travel at|move at|spin at|turn at",
    kinds: ["measure", "number"],
    ask: "How fast is {e}? | What is the {a} of {e}? | At what speed does {e} run? | How quickly does {e} go? | What {a} does {e} reach?",
    tell: "{e} has a {a} of {v}.",
  },
  temperature: {
    nouns: "temperature|operating temperature|storage temperature|maximum temperature|heat",
    verbs: "heat to|cool to|keep at|store at|fire at|bake at|dry at|hold at",
    kinds: ["measure"],
    ask: "How hot or cold may {e} be? | At what temperature is {e} kept? | What is the {a} of {e}? | How many degrees apply to {e}? | What temperature does {e} need?",
    tell: "The {a} of {e} is {v}.",
  },
  battery: {
    nouns: "battery life|battery|battery runtime|autonomy|battery duration|run time per charge",
    verbs: "run on",
    kinds: ["duration"],
    ask: "How long does the battery of {e} last? | How long does {e} run on one battery? | After what time is the battery of {e} empty? | What is the battery life of {e}? | How long does {e} keep going on its battery? | For how long is the battery of {e} good?",
    tell: "The battery of {e} lasts {v}.",
    which: "Which one has a battery life of {v}?",
  },
  warranty: {
    nouns: "warranty|guarantee|warranty period|guarantee period",
    verbs: "guarantee for|warrant for",
    kinds: ["duration"],
    ask: "How long is the warranty on {e}? | What guarantee comes with {e}? | For how long is {e} under warranty? | How many years or months of warranty does {e} have? | What warranty period applies to {e}? | How long am I covered if {e} breaks?",
    tell: "The warranty on {e} is {v}.",
    which: "Which one has a warranty of {v}?",
  },
  delivery: {
    nouns: "lead time|delivery time|delivery|shipping time|shipping|turnaround|waiting time|dispatch time",
    verbs: "ship in|ship within|deliver within|deliver in|arrive within|leave within|dispatch within|arrive in",
    kinds: ["duration"],
    ask: "How long does delivery of {e} take? | When will {e} arrive after an order? | What is the lead time for {e}? | How soon is {e} shipped? | How long do I wait for {e}? | How quickly can I get {e}?",
    tell: "{e} is delivered in {v}.",
  },
  material: {
    nouns: "material|made of|made from|body|housing|fabric|composition|casing|wood|shell|frame|cover",
    verbs: "make of|make from|build of|build from|consist of|cast in|cast from|cut from|carve from|line with|make in",
    kinds: ["text", "name"],
    ask: "What is {e} made of? | Of which material is {e}? | What material is used for {e}? | What material is the {a} of {e} made of? | What is the {a} of {e} made from? | What does {e} consist of?",
    tell: "{e} is made of {v}.",
    which: "Which one is made of {v}?",
  },
  colour: {
    nouns: "colour|color|shade|paint|label colour|label color",
    verbs: "paint|paint in|mark in|mark with|colour",
    kinds: ["text"],
    ask: "What colour is {e}? | Which color does {e} have? | In what shade is {e}? | What is the colour of {e}? | How is {e} painted?",
    tell: "The colour of {e} is {v}.",
    which: "Which one is {v}?",
  },
  code: {
    nouns:
      "code|part number|sku|article number|item number|number|model number|order number|id|reference|serial number|product code|order code|cost centre|cost center|account",
    verbs: "carry|call|label as|list as|number",
    kinds: ["code"],
    ask: "What is the {a} of {e}? | Under which {a} do I find {e}? | Which {a} belongs to {e}? | What {a} do I quote for {e}? | How is {e} coded? | What do I enter for {e}?",
    tell: "The {a} of {e} is {v}.",
    which: "What has the code {v}?",
  },
  phone: {
    nouns:
      "phone|telephone|hotline|extension|phone number|telephone number|mobile|fax|direct line|phone extension|internal number",
    verbs: "reach at|reach under|reach on|call on|call at|phone on",
    kinds: ["contact", "number", "code"],
    ask: "What number do I dial for {e}? | How can I phone {e}? | What is the {a} of {e}? | Under which number can I call {e}? | Which number reaches {e}? | How do I get {e} on the telephone? | What do I dial to speak to {e}?",
    tell: "The {a} of {e} is {v}.",
    which: "Who has the {a} {v}?",
  },
  contact: {
    nouns: "email|e-mail|website|mail|email address|e-mail address|radio channel|channel|mailbox|web address",
    verbs: "reach via|reach by|contact at|write to|send to|report to|contact via|reach at",
    kinds: ["contact", "code", "text"],
    ask: "What is the {a} of {e}? | Where can I write to {e}? | To which address do I send a message for {e}? | How can I get in touch with {e} in writing? | Which {a} do I use for {e}?",
    tell: "The {a} of {e} is {v}.",
  },
  supplier: {
    nouns: "supplier|vendor|manufacturer|maker|provider|producer|brand|partner|source|carrier|insurer",
    verbs:
      "supply by|deliver by|make by|manufacture by|provide by|produce by|build by|come from|buy from|source from|purchase from|order from|ship with|insure with|design by|write by|print by",
    kinds: ["name", "text"],
    ask: "Who supplies {e}? | Where does {e} come from? | Which company delivers {e}? | Who is the {a} of {e}? | From whom do we get {e}? | Who makes {e}?",
    tell: "{e} comes from {v}.",
    which: "What does {v} supply?",
  },
  name: {
    nouns: "name|nickname|code name|codename|called|project name|full name|title|mascot",
    verbs: "call|name|know as|name after|refer as|title|nickname|dub",
    kinds: ["name", "text"],
    ask: "What is {e} called? | What is the name of {e}? | By what name do people know {e}? | What do we call {e}? | Which name does {e} carry?",
    tell: "{e} is called {v}.",
  },
  purpose: {
    nouns: "purpose|use|used for|application|intended use|goal|aim|task",
    verbs: "use for|serve for|intend for|make for|design for|mean for|build for",
    kinds: ["text", "name"],
    ask: "What is {e} used for? | What is the purpose of {e}? | Why do we have {e}? | What is {e} good for? | What is {e} meant for?",
    tell: "{e} is used for {v}.",
  },
  language: {
    nouns:
      "language|languages|operating system|system|software|tool|format|file format|protocol|standard|certificate|certification",
    verbs:
      "write in|speak in|run on|certify to|certify under|comply with|meet|keep in|record in|log in|file in|hold in",
    kinds: ["name", "code"],
    ask: "Which {a} does {e} use? | What is the {a} of {e}? | What {a} applies to {e}? | In which {a} is {e}? | What does {e} run on or comply with?",
    tell: "The {a} of {e} is {v}.",
  },
  successor: {
    nouns: "predecessor|successor|previous name|replaces|replaced by|replacement",
    verbs: "supersede by|succeed by|supersede|succeed",
    kinds: ["name", "code", "text"],
    ask: "What is the {a} of {e}? | Which one took the place of the other with {e}? | What was swapped when {e} came? | What goes with {e} as its {a}?",
    tell: "The {a} of {e} is {v}.",
  },
};
