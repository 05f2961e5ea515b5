// Types that several of the console's modules share. No browser loads them, so they cost nothing there.
type Replies = import("./api/types.d.ts").Replies;

/** Child lists may be nested. */
type Child = Node | string | number | null | undefined | false | readonly Child[];
type Props = Record<string, unknown>;

/** What a screen is given. */
interface View {
	/** It fills this. */
	place: HTMLElement;
	/** Of the one thing it shows. */
	id: string | null;
	query: URLSearchParams;
	/** Aborted when another screen is shown. */
	signal: AbortSignal;
	/** Shows an error above the screen. */
	fail: (error: unknown) => void;
	/** Shows the screen anew. */
	reload: () => Promise<void>;
}
type Screens = Record<string, [scope: string, load: () => Promise<{ show: (view: View) => Promise<void> }>]>;

/** A field of a form. */
interface Field {
	/** Of the API's field. */
	name: string;
	label: string;
	/** Where it is not told by options or a value that is a number. */
	type?: "text" | "number" | "textarea" | "select" | "checkbox" | "password" | "checks" | "file" | "datetime-local";
	hint?: string;
	value?: string | number | boolean | null;
	required?: boolean;
	/** Those of one group stand together under its name. */
	options?: { value: string; text: string; group?: string; chosen?: boolean }[];
	/** Attributes. */
	more?: Record<string, string | number | boolean>;
}
type Values = Record<string, string | number | boolean | string[] | File[] | undefined>;

/** Progress of long work. */
interface Detail {
	phase: string;
	done: number;
	total: number | null;
	unit: string;
	rate: number | null;
	seconds_left: number | null;
}

/** Numbers are numeric by themselves; "name": of a length that nobody knows; "when": a date and a time. */
type Column<T> = [head: string, cell: (row: T) => Child, kind?: "numeric" | "numeric name" | "when"];
/** Rows from `offset` on, at most `limit`; the total where it is known. */
type Load<T> = (query: { offset: number; limit: number }) => Promise<{ rows: readonly T[]; total?: number | undefined }>;
/** `of` gives a word of the API, whose text is in `group`; `chosen` is what the filter stands on at first. */
type Filter<T> = { label: string; group: string; of: (item: T) => string; chosen?: string | null };

type Points = (number | null)[];
type Line = { label: string; color: "accent" | "second" | "muted"; dashed?: boolean; dots?: boolean; hidden?: boolean };

/** What the appliance says: a sentence, with the code and the figures that it was made of. */
interface Said {
	message: string;
	code?: string | undefined;
	parameters?: Record<string, string | number> | undefined;
}

interface RunEvent {
	seq: number;
	at: string;
	kind: string;
	phase: string;
	step?: number;
	metrics?: Record<string, number | string | null>;
	message?: string;
	code?: string;
	parameters?: Record<string, string | number>;
	done?: number;
	total?: number | null;
	unit?: string;
	rate?: number | null;
	seconds_left?: number | null;
}
interface RunLog {
	lastId: string;
	/** By step: after a resumption the last value of a step counts. */
	losses: Record<number, number>;
	/** By step. */
	checks: Record<number, { step: number; score: number; low: number; high: number; n: number }>;
	/** In the order in which they began. */
	phases: { phase: string; at: string }[];
	notes: ({ at: string; kind: string; phase: string } & Said)[];
	progress: Detail | null;
	tokensPerSecond: number | null;
}
