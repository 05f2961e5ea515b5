// Renders the report as one HTML file for people to read, without scripts or external resources.
import type { Report } from "./report.ts";

const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => entities[character]!);

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1,h2{line-height:1.2}table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}th,td{text-align:left;padding:.3rem .6rem;
border-bottom:1px solid #d0d7de;vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.worse{color:#b42318}
.better{color:#116329}summary{cursor:pointer}.big{font-size:1.6rem}svg{width:100%;height:8rem}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}.worse{color:#ff7b72}.better{color:#7ee787}}`;

type Cell = string | { n: string; tone?: "better" | "worse" | undefined };

function table(head: readonly Cell[], rows: readonly (readonly Cell[])[]): string {
  const cell = (tag: "td" | "th") => (value: Cell) =>
    typeof value === "string"
      ? `<${tag}>${escaped(value)}</${tag}>`
      : `<${tag} class="n ${value.tone ?? ""}">${escaped(value.n)}</${tag}>`;
  const line = (cells: string[]) => `<tr>${cells.join("")}</tr>`;
  return `<table><thead>${line(head.map(cell("th")))}</thead><tbody>${rows.map((row) => line(row.map(cell("td")))).join("\n")}</tbody></table>`;
}

const points = (value: number): string => value.toFixed(1);
const signed = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(1)}`;
const change = (value: number): Cell => ({
  n: signed(value),
  tone: value < 0 ? "worse" : value > 0 ? "better" : undefined,
});

function folded(title: string, rows: readonly (readonly Cell[])[], head: readonly Cell[]): string {
  if (rows.length === 0) return "";
  return `<details><summary>${escaped(title)}</summary>${table(head, rows)}</details>`;
}

export function reportPage(report: Report): string {
  const { alignment_id, recipe_name, base, documents } = report;
  const sections = [
    `<h1>Alignment ${escaped(alignment_id)}</h1>`,
    verdict(report),
    `<p>Preset ${escaped(recipe_name)}, base ${escaped(base.id)} (${escaped(base.architecture)}, ${escaped(base.file_type)}), ${documents.length} documents.</p>`,
    autoAligned(report),
    learned(report),
    lost(report),
    cost(report),
    `<h2>What would help most</h2><ol>${report.help.map((text) => `<li>${escaped(text)}</li>`).join("")}</ol>`,
    details(report),
  ];
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Alignment ${escaped(alignment_id)}</title><style>${style}</style></head>
<body>${sections.join("\n")}</body></html>
`;
}

function verdict({ verdict: { outcome, headline, why }, help }: Report): string {
  const tone = outcome === "gain" ? "better" : "worse";
  const helps = outcome === "gain" ? "" : `<p>What would help most: ${escaped(help[0]!)}</p>`;
  return `<p class="big ${tone}">${escaped(headline)}</p><p>${escaped(why.join(" "))}</p>${helps}`;
}

function autoAligned({ auto_align: told }: Report): string {
  if (told === null) return "";
  const { course, looks, flow, hours } = told;
  const phases = course.map(({ checkpoint, arm, hours, score, low, high, forecast, gained }): Cell[] => [
    arm === null ? "the base" : `${checkpoint}: ${arm}`,
    { n: hours.toFixed(2) },
    { n: `${points(score)} (${points(low)} to ${points(high)})` },
    {
      n:
        forecast === undefined
          ? ""
          : `${signed(forecast.gain)} (${signed(forecast.least)} to ${signed(forecast.most)})`,
    },
    gained === undefined ? { n: "" } : change(gained),
  ]);
  const looked = looks.map(({ checkpoint, n, score, low, smallest_visible, reached, confirmed }): Cell[] => [
    checkpoint,
    { n: String(n) },
    { n: `${points(score)} (lower bound ${points(low)})` },
    { n: points(smallest_visible) },
    reached ? (confirmed ? "reached, confirmed" : "reached, not confirmed") : "missed",
  ]);
  const flows = Object.entries(flow)
    .filter(([, { items }]) => items > 0)
    .map(([name, { items, right }]): Cell[] => [
      deficitNames[name as keyof typeof flow],
      { n: String(items) },
      { n: String(right) },
    ]);
  const most = hours.most === null ? "" : ` of ${hours.most}`;
  return `<h2>Auto-align: ${escaped(told.status)}</h2>
<p>Target ${points(told.target_score)}; ${hours.spent.toFixed(2)}${most} hours used. ${escaped(told.why)}</p>
${scoreByHours(course, told.target_score)}
${table(["Checkpoint", { n: "Hours" }, { n: "Dev score, 95 %" }, { n: "Forecast, 80 %" }, { n: "Gain" }], phases)}
${looked.length === 0 ? "" : table(["Look at the sealed questions", { n: "Questions" }, { n: "Score" }, { n: "Smallest detectable" }, "Target"], looked)}
${table(["Dev questions that the base", { n: "Questions" }, { n: "Correct now" }], flows)}`;
}

const deficitNames = {
  right: "answered correctly",
  disputed: "answers differently from the reference, which no document contains",
  format: "answers correctly in content but not in form",
  forgotten: "answered correctly before",
  elicitation: "answers correctly in some samples",
  knowledge: "answers correctly only with the passage",
  reading: "answers wrongly even with the passage",
};

/** Draws the dev scores over hours, each with its interval, and a dashed line at the target. */
function scoreByHours(course: { hours: number; score: number; low: number; high: number }[], target: number): string {
  const most = Math.max(...course.map(({ hours }) => hours), Number.MIN_VALUE);
  const x = (hours: number): string => ((100 * hours) / most).toFixed(2);
  const y = (score: number): string => (100 - score).toFixed(2);
  const line = 'stroke="currentColor" vector-effect="non-scaling-stroke"';
  const bands = course.map(
    ({ hours, low, high }) =>
      `<line ${line} stroke-opacity=".4" x1="${x(hours)}" x2="${x(hours)}" y1="${y(low)}" y2="${y(high)}"/>`,
  );
  const scores = course.map(({ hours, score }) => `${x(hours)},${y(score)}`).join(" ");
  return `<svg viewBox="-1 0 102 100" preserveAspectRatio="none" role="img" aria-label="Dev score over hours"><line ${line} stroke-dasharray="4 4" x1="0" x2="100" y1="${y(target)}" y2="${y(target)}"/><polyline fill="none" ${line} points="${scores}"/>${bands.join("")}</svg>`;
}

function learned({ learned: { dev, gained, lost, missed } }: Report): string {
  if (dev === null) return "<h2>What was learned</h2><p>There was no benchmark to test with.</p>";
  const { base, aligned } = dev;
  const range = (score: typeof base): string => `${points(score.low)} to ${points(score.high)}`;
  const asked = gained.map((one) => [one.question, one.gold, one.before, one.answer]);
  return `<h2>What was learned</h2>
<p><span class="big">${points(base.score)} → ${points(aligned.score)}</span> of 100 on ${aligned.n} dev questions (95 % intervals ${range(base)} and ${range(aligned)}).
The run used these questions to choose its adapter; the evaluation on the sealed questions shows the true gain.</p>
${folded(`${gained.length} answers became correct`, asked, ["Question", "Correct answer", "Base", "Aligned"])}
${folded(
  `${missed.length} answers are still wrong`,
  missed.map((one) => [one.question, one.gold, one.answer, one.taught ? "yes" : "no"]),
  ["Question", "Correct answer", "Aligned", "Trained"],
)}
${folded(
  `${lost.length} answers became wrong`,
  lost.map((one) => [one.question, one.gold, one.before, one.answer]),
  ["Question", "Correct answer", "Base", "Aligned"],
)}`;
}

const suiteNames = {
  retention: "General knowledge that the base answered correctly twice",
  general: "General questions",
  format: "Format instructions",
  refusals: "Refusals where a refusal is right",
};

function lost({ guards }: Report): string {
  if (guards === null) return "<h2>What was lost</h2><p>The preset has no guards.</p>";
  const { drift } = guards;
  const rows = guards.suites.map(({ name, n, base, aligned, gates }): Cell[] => [
    gates ? suiteNames[name] : `${suiteNames[name]} (for information: the base scores no better than chance)`,
    { n: String(n) },
    { n: points(base) },
    { n: points(aligned) },
    change(aligned - base),
  ]);
  return `<h2>What was lost</h2>
${table(["Suite", { n: "Questions" }, { n: "Base" }, { n: "Aligned" }, { n: "Change" }], rows)}
<p>On ${drift.tokens} tokens of general text, perplexity went from ${drift.base_perplexity.toFixed(2)} to ${drift.perplexity.toFixed(2)}
(${signed(drift.perplexity_rise)} %); the KL divergence from the base is ${drift.kl.toFixed(4)} nats per token.</p>
${guards.suites
  .map(({ name, lost }) =>
    folded(
      `${lost.length} lost: ${suiteNames[name]}`,
      lost.map((text) => [text]),
      ["Question"],
    ),
  )
  .join("\n")}`;
}

function cost({ cost: { seconds, train_seconds, tokens_per_second }, training }: Report): string {
  // Edits alone train no tokens, and take no time in training.
  const pace = Number.isFinite(tokens_per_second) ? `, ${tokens_per_second.toFixed(0)} tokens per second` : "";
  const phases = Object.entries(seconds).map(([phase, value]): Cell[] => [phase, { n: `${value.toFixed(0)} s` }]);
  return `<h2>What it cost</h2>
<p>${training.steps} steps over ${training.processed_tokens} tokens in ${(train_seconds / 60).toFixed(1)} minutes${pace}.</p>
${table(["Phase (times of the process that finished)", { n: "Time" }], phases)}`;
}

function details({ training, rows }: Report): string {
  const candidates = training.candidates.map(({ step, repaired, scale, dev, guards, penalty }): Cell[] => [
    `step ${step}${repaired ? ", repaired" : ""}`,
    { n: String(scale) },
    { n: dev === null ? "" : points(dev) },
    ...(guards?.suites ?? []).map(({ base, aligned }) => change(aligned - base)),
    ...(guards === null ? [] : [{ n: guards.drift.kl.toFixed(3) }, { n: signed(guards.drift.perplexity_rise) }]),
    { n: points(penalty) },
  ]);
  const first = training.candidates[0]?.guards;
  const names = (first?.suites ?? []).map(({ name }): Cell => ({ n: name }));
  const head: Cell[] = [
    "Adapter",
    { n: "Scale" },
    { n: "Dev" },
    ...names,
    ...(first ? [{ n: "KL" }, { n: "Perplexity, %" }] : []),
    { n: "Penalty" },
  ];
  const kinds = Object.entries(rows.by_kind).map(([kind, count]): Cell[] => [kind, { n: String(count) }]);
  return `<h2>How the adapter was chosen</h2>
${table(head, candidates)}
<p>Training started from ${training.warm_start === null ? "the base" : "the shipped warm start, an adapter that has learned to answer from memory"}.
Chosen: step ${training.chosen_step} at scale ${training.chosen_scale}, after ${training.rungs.trained} of ${training.rungs.planned} stages.</p>
<h2>Loss</h2>${curve(training.losses)}
${overlapText(rows)}${folded(`${rows.rows} training rows by kind`, kinds, ["Kind", { n: "Rows" }])}`;
}

function overlapText({
  overlap_dropped: dropped,
  overlap_questions: questions,
  overlap_lost: lost,
}: Report["rows"]): string {
  if (dropped === 0) return "";
  const without = lost === 0 ? "" : ` The facts of ${lost} of them have no other row, so they are not trained.`;
  return `<p>${questions} benchmark questions occur in training rows. The ${dropped} rows with them were left out.${without}</p>\n`;
}

/** Draws the losses over the steps. The vertical axis goes from zero to the largest loss. */
function curve(values: readonly number[]): string {
  if (values.length < 2) return "<p>Too few steps for a chart.</p>";
  const top = values.reduce((most, value) => Math.max(most, value));
  const place = (value: number, at: number): string =>
    `${((100 * at) / (values.length - 1)).toFixed(2)},${(100 - (100 * value) / top).toFixed(2)}`;
  return `<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label="Loss by step, from ${values[0]!.toFixed(2)} to ${values.at(-1)!.toFixed(2)}"><polyline fill="none" stroke="currentColor" stroke-width="1" vector-effect="non-scaling-stroke" points="${values.map(place).join(" ")}"/></svg>`;
}
