// Documents: uploads of many files with their progress, and what was read from each file.
import { upload } from "../api/client.js";
import { session } from "../shell/session.js";
import {
	announce,
	append,
	badge,
	bar,
	bytes,
	explained,
	filePick,
	fill,
	h,
	languageName,
	link,
	listScreen,
	messageOf,
	percent,
	section,
	smallPrint,
	t,
	when,
} from "../ui.js";
import { formatName, showDocument } from "./document.js";

/** @typedef {Replies["documents_list"]["documents"][number]} DocumentRecord */

/** The uploads of this session. They go on while other screens are shown. */
let queue = createQueue();
session.addEventListener("change", () => {
	queue = createQueue();
});

/** Number of files sent at the same time. The appliance reads a user's files one after another, so more would not help. */
const atOnce = 2;

/** @param {View} view */
export async function show(view) {
	if (view.id !== null) return showDocument(view, view.id);
	view.signal.addEventListener("abort", () => {
		// Uploads that had ended were seen, so the next visit does not show them again.
		if (!queue.isSending()) queue = createQueue();
	});
	const draw = await listScreen(
		view,
		"documents",
		[
			[t("field.name"), (one) => link(`#/documents/${one.document_id}`, one.name)],
			[t("documents.format"), (one) => formatName(one.format)],
			[t("shell.language"), (one) => one.report?.language.main && languageName(one.report.language.main)],
			[t("documents.characters"), (one) => one.characters],
			[t("field.size"), (one) => bytes(one.bytes), "numeric"],
			[t("documents.found"), found],
			[t("documents.at"), (one) => when(one.created_at), "when"],
		],
		(reply) => reply.documents,
		{ above: [dropZone(queue.add), queue.element] },
	);
	queue.onDone = () => draw().catch(view.fail);
}

/** @param {DocumentRecord} one */
function found({ report, duplicates }) {
	const warnings = report?.warnings.length ?? 0;
	const doubled = duplicates.exact + duplicates.near;
	return [
		warnings > 0 && badge("STOPPED", t("documents.warnings", { n: warnings })),
		doubled > 0 && h("span.small", ` ${t("documents.duplicates", { n: doubled })}`),
		warnings + doubled === 0 && t("state.none"),
	];
}

/** @param {(files: File[]) => void} add */
function dropZone(add) {
	const input = h("input", { type: "file", multiple: true, "aria-label": t("documents.choose") });
	input.addEventListener("change", () => {
		add([...(input.files ?? [])]);
		input.value = "";
	});
	const zone = h(
		"div.drop",
		h("p", t("documents.drop")),
		h("p", filePick(input, t("documents.choose"), "primary")),
		smallPrint(t("documents.formats")),
	);
	const over = (/** @type {boolean} */ is) => (/** @type {DragEvent} */ event) => {
		event.preventDefault();
		zone.classList.toggle("over", is);
	};
	zone.addEventListener("dragover", over(true));
	zone.addEventListener("dragleave", over(false));
	zone.addEventListener("drop", (event) => {
		over(false)(event);
		add([...(event.dataTransfer?.files ?? [])]);
	});
	return zone;
}

/** Uploads files, `atOnce` at a time. Each file is a request of its own, so a refused file does not affect the others. */
function createQueue() {
	const lines = h("ul.list", { "aria-label": t("documents.uploads") });
	const element = h("div", { hidden: true }, section(t("documents.uploads"), lines));
	/** @type {{ file: File, line: HTMLElement }[]} */
	const waiting = [];
	let sending = 0;
	let read = 0;
	let refused = 0;

	async function next() {
		const one = sending < atOnce ? waiting.shift() : undefined;
		if (!one) return;
		sending++;
		const { file, line } = one;
		const shown = h("div", bar(file.name, 0));
		append(line, shown);
		const onProgress = (/** @type {number} */ share) => {
			// The appliance reads a file once it has arrived, and how long the reading takes is not known.
			if (share < 1) /** @type {HTMLProgressElement} */ (shown.firstChild).value = share;
			else fill(shown, bar(t("documents.reading"), null), smallPrint(percent(1), t("documents.reading")));
		};
		try {
			// A folder that was dropped cannot be read, and the browser would report this as a broken connection.
			await file.slice(0, 1).arrayBuffer().catch(unreadable);
			const { documents } = await upload("documents_upload", file, { onProgress });
			read++;
			fill(
				shown,
				badge("READY", t("documents.read")),
				documents.map((one) => [" ", link(`#/documents/${one.document_id}`, t("action.open"))]),
			);
		} catch (error) {
			refused++;
			fill(shown, refusal(error));
		}
		// The user has signed out.
		if (made !== queue) return;
		sending--;
		if (waiting.length > 0) return void next();
		if (sending > 0) return;
		announce(t("documents.uploaded", { read, refused }));
		read = refused = 0;
		if (element.isConnected) await made.onDone();
	}

	const made = {
		element,
		/** Called when all files have been sent, if the screen is shown. */
		onDone: async () => {},
		isSending: () => sending > 0,
		/** @param {File[]} files */
		add(files) {
			for (const file of files) {
				const line = h("li", h("p", file.name, h("span.small", ` · ${bytes(file.size)}`)));
				append(lines, line);
				waiting.push({ file, line });
			}
			element.hidden = false;
			for (let i = 0; i < atOnce; i++) void next();
		},
	};
	return made;
}

const unreadable = () => {
	throw new Error(t("documents.unreadable"));
};

/** @param {unknown} error */
const refusal = (error) => [badge("FAILED", t("documents.refused")), h("p", messageOf(error)), explained(error)];
