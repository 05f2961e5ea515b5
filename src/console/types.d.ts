// Types that several of the console's modules share. No browser loads them, so they cost nothing there.
type Replies = import("./api/types.d.ts").Replies;

/** Child lists may be nested. */
type Child = Node | string | number | null | undefined | false | readonly Child[];
type Props = Record<string, unknown>;

/** What a screen is given. */
interface View {
	/** The element that the screen fills. */
	place: HTMLElement;
	/** The id in the address. Null if there is none. */
	id: string | null;
	query: URLSearchParams;
	/** Aborted when another screen is shown. */
	signal: AbortSignal;
	/** Shows an error above the screen. */
	fail: (error: unknown) => void;
	/** Loads and shows the screen again, unless the user has left it. */
	reload: () => Promise<void>;
	/** Leads to another screen, unless the user has already gone to one. */
	go: (hash: string) => void;
}
/** The scope that each screen requires; "-" stands for any key. */
type Screens = Record<string, string>;

/** A field of a form. */
interface Field {
	/** The name of the API's field. An error of the API about that name is shown beside this field. */
	name: string;
	label: string;
	/** Absent: select if there are options, number if the value is a number, otherwise text. */
	type?: "text" | "number" | "textarea" | "select" | "checkbox" | "password" | "checks" | "file" | "datetime-local";
	hint?: string;
	value?: string | number | boolean | null;
	required?: boolean;
	/** In a select, the options of a group are listed together under its name. */
	options?: { value: string; text: string; group?: string; chosen?: boolean }[];
	/** Further attributes of the control. */
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

/** `kind`: absent, "numeric" if the first row's cell is a number. "name": the head may be long. "when": a date and a time. */
type Column<T> = [head: string, cell: (row: T) => Child, kind?: "numeric" | "numeric name" | "when"];
/** Loads at most `limit` rows from `offset` on, with the total of all rows if it is known. */
type Load<T> = (query: { offset: number; limit: number }) => Promise<{ rows: readonly T[]; total?: number | undefined }>;
/** `of` returns an item's word of the API, whose text is in `group`. `chosen` is the word selected at first. */
type Filter<T> = { label: string; group: string; of: (item: T) => string; chosen?: string | null };

type Points = (number | null)[];
type Line = { label: string; color: "accent" | "second" | "muted"; dashed?: boolean; dots?: boolean; hidden?: boolean };

/** A sentence of the appliance, with its code and the figures in it, from which it can be translated. */
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
	/** By step. After a resumption the last value of a step counts. */
	losses: Record<number, number>;
	/** By step. */
	checks: Record<number, { step: number; score: number; low: number; high: number; n: number }>;
	/** In the order in which they began. */
	phases: { phase: string; at: string }[];
	notes: ({ at: string; kind: string; phase: string } & Said)[];
	progress: Detail | null;
	tokensPerSecond: number | null;
}
