// What organisations and their affairs have: people, times, limits, money. Data only; read it with the head of attributes.ts.
import type { Attribute } from "./attributes.ts";

export const affairs: Record<string, Attribute> = {
  expansion: {
    nouns: "expansion|full form|long form|stands for|written out|spelled out|meaning of the acronym",
    verbs: "stand for",
    ask: "What does {e} stand for? | What is {e} short for? | What is the full form of {e}? | What do the letters of {e} stand for? | How is {e} written out? | Can you expand {e}? | Which phrase is shortened to {e}? | {e} is short for what? | Which term is abbreviated as {e}? | Explain what {e} abbreviates.",
    tell: "{e} stands for {v}.",
    which: "What is the abbreviation of {v}?",
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
    verbs: "work as|serve as|act as|be|join as|take as|start as",
    kinds: [],
    ask: "What is the role of {e}? | What does {e} do? | What position does {e} hold? | What is {e}'s job? | As what does {e} work? | What is {e}'s job title?",
    tell: "{e} works as {v}.",
    which: "Who works as {v}?",
  },
  room: {
    nouns: "room|office room|room number|desk|office number",
    verbs: "sit in|find in",
    kinds: ["number", "code"],
    ask: "In which room does {e} sit? | Where can I find {e} in the building? | What is the number of {e}'s office? | Where is the desk of {e}? | Which room is {e} in? | Where does {e} work, in which room? | On which door does the name of {e} stand?",
    tell: "{e} sits in room {v}.",
    which: "Who sits in room {v}?",
  },
  joined: {
    nouns: "joining date|first day|hired on|date of joining|start of work",
    verbs: "join on|join in|start with on|hire on|hire in",
    kinds: ["date", "year"],
    ask: "When did {e} join? | Since when has {e} been here? | On which day did {e} start work? | What was the first day of {e}? | When was {e} hired? | When did {e} come to us?",
    tell: "{e} joined on {v}.",
    which: "Who joined on {v}?",
  },
  formerEmployer: {
    nouns: "former employer|previous employer|last employer",
    verbs: "employ by|work for|come to from|leave",
    kinds: ["name"],
    ask: "Where did {e} work before? | Who employed {e} earlier? | What was the former employer of {e}? | At which company was {e} until then? | From which firm did {e} come?",
    tell: "{e} used to work for {v}.",
    which: "Who came from {v}?",
  },
  goods: {
    nouns: "goods|goods supplied|delivers|supplies|product range|merchandise",
    verbs: "supply|deliver|provide|supply with|provide with|sell|make|produce|manufacture",
    kinds: ["text"],
    ask: "What does {e} supply? | Which goods come from {e}? | What do we get from {e}? | What does {e} deliver? | What is bought from {e}? | Which article does {e} provide?",
    tell: "{e} supplies {v}.",
    which: "Who supplies {v}?",
  },
  auditor: {
    nouns: "auditor|auditors|accountant",
    verbs: "audit by|check by",
    kinds: ["name"],
    ask: "Who audits {e}? | Which firm checks {e}? | Who goes through {e}? | Who is the auditor of {e}?",
    tell: "{e} is audited by {v}.",
  },
  client: {
    nouns: "client|customer|ordered by|commissioned by|principal",
    verbs: "order by|commission by|pay by",
    kinds: ["name", "text"],
    ask: "Who ordered {e}? | For whom is {e}? | Who is the client of {e}? | Who commissioned {e}? | Which customer is {e} for? | Who pays for {e}?",
    tell: "The client of {e} is {v}.",
    which: "What is done for {v}?",
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
};
