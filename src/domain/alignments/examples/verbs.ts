// The verbs of company documents: their forms, and which of them say much the same.
import { attributes } from "./attributes.ts";

const more =
  "accept add agree apply appear arrange arrive ask assemble assign attend become belong bring calibrate carry come compete connect cool cost count cover deal deduct decide depend dispatch do dry earn end enter exceed expect expire explain extend fall fill finish fit follow gain give go grow handle have heat help include inform inspect invest keep know learn leave let listen lock look lose maintain mark measure meet mix monitor mount need note notify offer open operate order organise own pack park pass pay perform place plan power prefer prepare present print protect provide publish put qualify raise read receive recommend record register relate remain remove rent repair report represent reserve rest retain return rise say see send separate set share show sign sit sound spend split stay stock stop supervise support switch teach tell test think train transfer treat turn update visit wait walk want wash watch wear win wire work wrap write employ name weigh audit transport hand exchange swap reserve fetch clean store inspect check lend borrow sponsor host water feed sharpen oil paint repaint refill rinse brew roast bake fire glaze pick plant prune harvest";

/** Past and participle. */
const irregular: Record<string, [string, string]> = {
  become: ["became", "become"],
  begin: ["began", "begun"],
  bring: ["brought", "brought"],
  build: ["built", "built"],
  buy: ["bought", "bought"],
  come: ["came", "come"],
  cost: ["cost", "cost"],
  cut: ["cut", "cut"],
  do: ["did", "done"],
  draw: ["drew", "drawn"],
  drive: ["drove", "driven"],
  fall: ["fell", "fallen"],
  feed: ["fed", "fed"],
  find: ["found", "found"],
  freeze: ["froze", "frozen"],
  get: ["got", "got"],
  give: ["gave", "given"],
  go: ["went", "gone"],
  grow: ["grew", "grown"],
  hang: ["hung", "hung"],
  have: ["had", "had"],
  hold: ["held", "held"],
  keep: ["kept", "kept"],
  know: ["knew", "known"],
  lead: ["led", "led"],
  leave: ["left", "left"],
  lend: ["lent", "lent"],
  let: ["let", "let"],
  lie: ["lay", "lain"],
  lose: ["lost", "lost"],
  make: ["made", "made"],
  mean: ["meant", "meant"],
  meet: ["met", "met"],
  oversee: ["oversaw", "overseen"],
  pay: ["paid", "paid"],
  put: ["put", "put"],
  read: ["read", "read"],
  rise: ["rose", "risen"],
  run: ["ran", "run"],
  say: ["said", "said"],
  see: ["saw", "seen"],
  shut: ["shut", "shut"],
  sell: ["sold", "sold"],
  send: ["sent", "sent"],
  set: ["set", "set"],
  show: ["showed", "shown"],
  sit: ["sat", "sat"],
  speak: ["spoke", "spoken"],
  spend: ["spent", "spent"],
  spin: ["spun", "spun"],
  split: ["split", "split"],
  stand: ["stood", "stood"],
  take: ["took", "taken"],
  teach: ["taught", "taught"],
  tell: ["told", "told"],
  think: ["thought", "thought"],
  wear: ["wore", "worn"],
  win: ["won", "won"],
  write: ["wrote", "written"],
};
const doubling =
  /^(?:ship|stop|plan|cap|fit|split|dub|permit|refer|submit|wrap|swap|get|put|set|run|cut|let|sit|spin|begin|win)$/;
const consonantY = /[^aeiou]y$/;

export function thirdOf(base: string): string {
  if (base === "have") return "has";
  if (/(?:s|x|z|ch|sh|[^aeiou]o)$/.test(base) || base === "do" || base === "go") return `${base}es`;
  return consonantY.test(base) ? `${base.slice(0, -1)}ies` : `${base}s`;
}

export function pastOf(base: string): string {
  return irregular[base]?.[0] ?? regular(base);
}

export function participleFor(base: string): string {
  return irregular[base]?.[1] ?? regular(base);
}

function regular(base: string): string {
  if (doubling.test(base)) return `${base}${base.at(-1)}ed`;
  if (/e$/.test(base)) return `${base}d`;
  return consonantY.test(base) ? `${base.slice(0, -1)}ied` : `${base}ed`;
}

export function ingOf(base: string): string {
  if (doubling.test(base)) return `${base}${base.at(-1)}ing`;
  if (/ie$/.test(base)) return `${base.slice(0, -2)}ying`;
  return /[^eo]e$/.test(base) ? `${base.slice(0, -1)}ing` : `${base}ing`;
}

export const bases: ReadonlySet<string> = new Set(
  [
    ...Object.values(attributes).flatMap(({ verbs }) => verbs.split("|").map((verb) => verb.split(" ")[0]!)),
    ...more.split(" "),
  ].filter((verb) => verb !== "" && verb !== "be"),
);
export const third: ReadonlyMap<string, string> = new Map([...bases].map((base) => [thirdOf(base), base]));
/** «found» is left to find: documents write «founded» for the other verb. */
export const past: ReadonlyMap<string, string> = new Map([...bases].map((base) => [pastOf(base), base]));
const participles: ReadonlyMap<string, string> = new Map([...bases].map((base) => [participleFor(base), base]));

/** The base of a participle; that of a regular one need not be known, and is then guessed by its spelling. */
export function baseOfParticiple(word: string): string | null {
  const known = participles.get(word);
  if (known) return known;
  const again = /^re(.{3,})$/.exec(word)?.[1];
  if (again && participles.has(again)) return `re${participles.get(again)}`;
  if (!/[a-z]{3}ed$/.test(word)) return null;
  const stem = word.slice(0, -2);
  if (/ied$/.test(word)) return `${stem.slice(0, -1)}y`;
  if (/([bdgmnprt])\1$/.test(stem)) return stem.slice(0, -1);
  return /(?:[vcsuz]|[^aeiou][lg]|[aeiou][rt]|at|iz|is)$/.test(stem) &&
    !/(?:ss|us|er|ent|out|oot|eat|et|it)$/.test(stem)
    ? `${stem}e`
    : stem;
}

/** Verbs that ask for the same in the same place, particle included. */
const alike =
  "carry transport deliver move|audit check examine|submit file hand_in send_in|replace exchange swap renew|store keep|lead run head manage|manage look_after oversee handle|clean wash|repair fix mend|calibrate adjust readjust|inspect check examine test|approve sign_off authorise|sign countersign|book reserve order|pay settle|reimburse refund pay_back|build make produce|supply provide deliver|sell offer|buy purchase get|found establish start set_up|open start|last go_on continue|begin start|teach train|organise arrange plan|change replace renew|cost come_to|hold take fit|employ have|weigh come_to|stand sit lie|locate base situate|deduct subtract take_off|return send_back give_back|cap limit restrict|receive get|review check|announce publish report|answer reply_to|write draw_up|print produce|maintain service look_after|meet gather come_together|design draw_up create|host hold|lend give_out|cover include|serve offer|grow raise";
const synonyms = new Map<string, string[]>();
for (const group of alike.split("|")) {
  const [first, ...rest] = group.split(" ");
  synonyms.set(first!, [...(synonyms.get(first!) ?? []), ...rest]);
}

/** Other verbs in the form that `said` has: «is carried» → «transported», «delivered»; a finite «designed» → «drew up». */
export function alternatives(lemma: string, said: string, finite: boolean): string[] {
  const forms: [(base: string) => string, boolean][] = [
    [thirdOf, thirdOf(lemma) === said],
    [participleFor, !finite && participleFor(lemma) === said],
    [pastOf, pastOf(lemma) === said],
    [(base) => base, lemma === said],
  ];
  const form = forms.find(([, fits]) => fits)?.[0];
  if (!form) return [];
  return (synonyms.get(lemma) ?? []).map((other) => {
    const [verb, ...particle] = other.split("_");
    return [form(verb!), ...particle].join(" ");
  });
}
