// Summarises the events of a run. The summary is kept in sessionStorage with the id of its last event, so that after a reload only
// newer events are requested.

/** @param {string} id @returns {RunLog} */
export function restoreLog(id) {
	const kept = sessionStorage.getItem(`run.${id}`);
	if (kept !== null) return JSON.parse(kept);
	return { lastId: "", losses: {}, checks: {}, phases: [], notes: [], progress: null, tokensPerSecond: null };
}

/** @param {string} id @param {RunLog} log */
export function keepLog(id, log) {
	try {
		sessionStorage.setItem(`run.${id}`, JSON.stringify(log));
	} catch {
		// sessionStorage is full. After a reload the events are read from the first one.
		sessionStorage.removeItem(`run.${id}`);
	}
}

/** Kinds of events whose messages are shown as notes. */
const told = new Set(["decision", "warning", "resumed", "paused", "continued", "stopped", "failed", "done"]);

/** @param {RunLog} log @param {RunEvent} event */
export function addEvent(log, event) {
	const { kind, phase, at, step = 0, metrics = {}, message, code, parameters } = event;
	log.lastId = String(event.seq);
	if (log.phases.at(-1)?.phase !== phase) log.phases.push({ phase, at });
	if (kind === "step" && typeof metrics.loss === "number") {
		log.losses[step] = metrics.loss;
		if (typeof metrics.tokens_per_second === "number") log.tokensPerSecond = metrics.tokens_per_second;
	}
	if (kind === "check" && typeof metrics.score === "number") {
		const [low, high, n] = [metrics.low, metrics.high, metrics.n].map(Number);
		log.checks[step] = { step, score: metrics.score, low: low ?? 0, high: high ?? 100, n: n ?? 0 };
	}
	if (typeof event.done === "number") {
		const { done, total = null, unit = "", rate = null, seconds_left = null } = event;
		log.progress = { phase, done, total, unit, rate, seconds_left };
	}
	if (told.has(kind)) log.notes.push({ at, kind, phase, message: message ?? "", code, parameters });
}

/**
 * Returns for each step an exponentially weighted mean of the losses so far, which shows the trend. It is divided by the sum of the
 * weights, so that it lies within the range of the losses from the first step on.
 * @param {number[]} losses
 */
export function smoothed(losses) {
	const keeps = 0.7;
	let sum = 0;
	let weight = 0;
	return losses.map((loss) => {
		sum = keeps * sum + loss;
		weight = keeps * weight + 1;
		return sum / weight;
	});
}
