// What organisations write about their things, and the many ways people ask for it. A document says it in one wording; a
// question seldom uses the same one, and wordings are what a small model has to be shown. Data only.
//
// nouns: how a column, key or noun phrase names it (its last words count).  verbs: «lemma» with the value as its object,
// «lemma preposition» with the value after that; «lemma by» is the one who does it, in the active and the passive.
// {e} the thing, {v} the value, {a} the document's own word. kinds: the values that the verbs mean this with.
import type { ValueKind } from "./values.ts";

export interface Attribute {
  nouns: string;
  verbs: string;
  kinds?: ValueKind[];
  /** Parted by « | ». */
  ask: string;
  tell: string;
  /** A sentence says it of something that happens («returning gauges»), not of its subject. */
  event?: true;
  /** Asks for the thing by its value. */
  which?: string;
}

const size: ValueKind[] = ["measure", "number"];

export const attributes: Record<string, Attribute> = {
  price: {
    nouns: "price|cost|list price|unit price|fee|rate|charge|tariff|amount|retail price|net price|price each",
    verbs: "cost|sell for|price at|charge|sell at",
    kinds: ["money"],
    ask: "How much does {e} cost? | What is the price of {e}? | How expensive is {e}? | What do I pay for {e}? | What does {e} sell for? | How much money do I need for {e}? | What is charged for {e}? | If I order {e}, what will it cost me?",
    tell: "{e} costs {v}.",
    which: "Which one costs {v}?",
  },
  founded: {
    nouns: "founded|established|founding year|year founded|foundation|incorporated|since",
    verbs: "found in|establish in|start in|set in|begin in|create in|form in|incorporate in|found on|exist since",
    kinds: ["year", "date"],
    ask: "When was {e} founded? | In what year was {e} established? | When did {e} start? | Since when has {e} existed? | What is the founding year of {e}? | In which year was {e} set up? | How long ago was {e} founded; in which year?",
    tell: "{e} was founded in {v}.",
  },
  founder: {
    nouns: "founder|founders|founded by",
    verbs: "found by|establish by|start by|create by|set by",
    kinds: ["name", "text"],
    ask: "Who founded {e}? | Who is the founder of {e}? | Who started {e}? | By whom was {e} established? | Who set up {e}? | What is the name of the person who founded {e}?",
    tell: "{e} was founded by {v}.",
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
  head: {
    nouns:
      "head|manager|lead|leader|director|chief executive|ceo|managing director|chair|supervisor|boss|team lead|site manager|head of team|responsible|responsible person|in charge|plant manager|general manager|owner|contact person|contact|coordinator|person responsible",
    verbs:
      "lead by|head by|manage by|run by|direct by|chair by|oversee by|supervise by|lead|look by|coordinate by|be responsible",
    kinds: ["name", "text"],
    ask: "Who leads {e}? | Who is in charge of {e}? | Who runs {e}? | Who is the head of {e}? | Who manages {e}? | Who is responsible for {e}? | What is the name of the person who heads {e}? | Whom do I talk to about {e}?",
    tell: "{e} is led by {v}.",
    which: "What does {v} lead?",
  },
  role: {
    nouns: "role|position|job|job title|function|post|title",
    verbs: "work as|serve as|act as|be",
    kinds: [],
    ask: "What is the role of {e}? | What does {e} do? | What position does {e} hold? | What is {e}'s job? | As what does {e} work? | What is {e}'s job title?",
    tell: "{e} works as {v}.",
    which: "Who works as {v}?",
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
  duration: {
    nouns:
      "duration|time|running time|period|term|run time|runtime|life|service life|processing time|cycle|length of stay|time needed|shelf life",
    verbs: "last|take|run for|last for|stay for|continue for|go for",
    kinds: ["duration"],
    ask: "How long does {e} last? | How long does {e} take? | What is the duration of {e}? | How much time does {e} need? | For how long does {e} go on? | What length of time applies to {e}?",
    tell: "{e} lasts {v}.",
    which: "What lasts {v}?",
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
  deadline: {
    event: true,
    nouns:
      "deadline|due date|closing date|cut-off|cutoff|notice|notice period|return period|grace period|limit|time limit|due|last day",
    verbs:
      "submit within|submit by|report within|return within|file within|hand within|pay within|send within|book by|return by|pay by|claim within|announce by|be due|answer within|reply within|settle within|request by|request within|cancel by|close on|announce within|complete within|repay within|refund within",
    ask: "What is the deadline for {e}? | How much time do I have for {e}? | How long do I have for {e}? | By when must I be done with {e}? | What time limit applies to {e}? | Until when is {e} possible? | How many days are allowed for {e}?",
    tell: "The time limit for {e} is {v}.",
  },
  startTime: {
    nouns: "start time|starting time|begin|start|opening time|check-in|doors open",
    verbs: "start at|begin at|open at|be open from|leave at|depart at",
    kinds: ["time"],
    ask: "At what time does {e} start? | When does {e} begin? | From what time on is there {e}? | What time do I have to be there for {e}? | When do people start with {e}?",
    tell: "{e} starts at {v}.",
  },
  endTime: {
    nouns: "end time|closing time|end|check-out|last order|last entry",
    verbs:
      "end at|close at|finish at|stop at|be open until|open until|be available until|stay until|last until|shut at",
    kinds: ["time"],
    ask: "At what time does {e} close? | Until when is {e} open? | When does {e} end? | Until what time is there {e}? | How late is {e} open? | What is the closing time of {e}?",
    tell: "{e} closes at {v}.",
  },
  hours: {
    nouns: "opening hours|hours|business hours|office hours|opening time|service hours|working hours|shift",
    verbs: "open from|open between|staff from|be open from|be open between",
    kinds: ["time"],
    ask: "What are the hours of {e}? | When is {e} open? | At what time does {e} open or close? | Between which times can I reach {e}? | What are the opening times of {e}?",
    tell: "{e} is open {v}.",
  },
  begin: {
    nouns:
      "start|start date|launch|launch date|opening|opened|release date|released|introduced|first sold|begin|kick-off|year built|built|construction year|commissioned|in service since|effective date|valid from|date|year|launched|joined|since|hired",
    verbs:
      "open in|launch in|release in|introduce in|begin on|start on|open on|launch on|build in|begin in|install in|apply from|start from|commission in|inaugurate in|inaugurate on",
    kinds: ["date", "year"],
    ask: "When did {e} begin? | When was {e} introduced? | What is the {a} of {e}? | Since when does {e} exist? | When did {e} start? | From when on is there {e}?",
    tell: "The {a} of {e} is {v}.",
  },
  end: {
    nouns:
      "end|end date|expiry|expiry date|expires|valid until|finish|closing|retirement date|end of life|end of support",
    verbs:
      "end on|end in|complete in|complete by|complete on|finish by|expire on|expire in|expire after|close in|finish on|finish in|end at|stop on|discontinue in|retire in|expire at",
    kinds: ["date", "year"],
    ask: "When does {e} end? | When will {e} be finished? | When is {e} complete? | By when is {e} done? | Until when is {e} valid? | When does {e} run out? | What is the last day of {e}? | When does {e} expire? | How long is {e} still good?",
    tell: "{e} ends {v}.",
  },
  interval: {
    event: true,
    nouns:
      "interval|frequency|maintenance interval|service interval|calibration interval|cadence|how often|schedule|cycle|inspection interval|rhythm",
    verbs:
      "service every|inspect every|calibrate every|clean every|meet every|check every|replace every|change every|repeat every|test every|review every|rotate every|back every|happen every|renew every",
    kinds: ["duration", "date", "text", "number", "measure"],
    ask: "How often is {e} due? | At what interval is {e} due? | How frequently is {e} needed? | What is the interval for {e}? | How much time lies between two rounds of {e}? | After what time is {e} due again?",
    tell: "The interval for {e} is {v}.",
  },
  people: {
    nouns:
      "employees|staff|headcount|people|workers|team size|members|number of employees|staff count|crew|workforce|engineers|technicians",
    verbs: "employ|have|number",
    kinds: ["number"],
    ask: "How many people work at {e}? | How many employees does {e} have? | What is the headcount of {e}? | How large is the team of {e}? | How many staff are there in {e}? | How many members does {e} have?",
    tell: "{e} has {v}.",
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
  approver: {
    nouns: "approver|approval|approved by|signed off by|sign-off|authorised by|reviewer|released by",
    verbs:
      "approve by|sign by|authorise by|authorize by|release by|confirm by|countersign by|grant by|decide by|review by|check by|clear by",
    ask: "Who approves {e}? | Whose approval is needed for {e}? | Who has to sign off {e}? | Who decides about {e}? | Who must agree to {e}? | Whom do I ask for approval of {e}?",
    tell: "{e} is approved by {v}.",
  },
  allowance: {
    nouns:
      "allowance|maximum|cap|ceiling|limit|subsidy|bonus|reimbursement|per diem|daily allowance|grant|contribution|annual leave|vacation|holidays|leave|deposit",
    verbs:
      "reimburse up|pay up|cap at|limit to|receive|get|grant|reimburse at|refund up|allow|entitle to|contribute|award|pay",
    kinds: ["money", "number", "duration", "percent", "measure"],
    ask: "How much is allowed for {e}? | What is the maximum for {e}? | Up to which amount is {e} covered? | What is the limit for {e}? | How much may {e} be at most? | How much does one get for {e}?",
    tell: "The limit for {e} is {v}.",
  },
  budget: {
    nouns: "budget|funding|funds|annual budget|total budget|investment|project budget|approved budget",
    verbs: "fund with|budget at|finance with|spend",
    kinds: ["money"],
    ask: "What is the budget of {e}? | How much money is set aside for {e}? | How much may {e} spend? | What funds does {e} have? | How much money does {e} have at its disposal? | What amount was granted to {e}?",
    tell: "The budget of {e} is {v}.",
    which: "What has a budget of {v}?",
  },
  share: {
    nouns:
      "discount|percentage|share|surcharge|margin|interest|tax|penalty|rebate|commission|accuracy|tolerance|humidity|efficiency",
    verbs: "grow by|rise by|fall by|reduce by|increase by|account for|discount by|deduct",
    kinds: ["percent", "measure", "money"],
    ask: "What is the {a} for {e}? | How many percent apply to {e}? | How large is the {a} of {e}? | What {a} does {e} have? | How high is the {a} on {e}?",
    tell: "The {a} of {e} is {v}.",
  },
  revenue: {
    nouns: "revenue|turnover|sales|annual revenue|profit|income|annual sales|earnings",
    verbs: "earn|turn|gross|make",
    kinds: ["money"],
    ask: "How much does {e} earn? | What is the {a} of {e}? | How much money does {e} take in? | What are the yearly sales of {e}? | What turnover does {e} have?",
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
