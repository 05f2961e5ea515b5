// Types of the API for the console's modules: the contract's types, under the operation names of the OpenAPI document.
import type { Reply } from "../../contract/endpoint.ts";
import type { Contract } from "../../contract/index.ts";

type NameOf<N> = N extends `${infer Group}.${infer Rest}` ? `${Group}_${Rest}` : never;

export type Replies = { [N in keyof Contract as NameOf<N>]: Reply<Contract[N]> };
export type Name = keyof Replies;

export interface CallInput {
	/** Path parameters. A string stands for the only one. */
	params?: string | Record<string, string>;
	/** Undefined, null and empty values are left out. */
	query?: Record<string, string | number | boolean | undefined | null>;
	body?: object;
	signal?: AbortSignal;
	/** The idempotency key of one user action. If the request is sent again with this key, it is carried out only once. */
	onceKey?: string;
}

export interface ServerEvent {
	id: string;
	data: string;
}

/** One line of an error's `detail`. */
export interface Detail {
	loc: (string | number)[];
	msg: string;
	type: string;
	ctx?: Record<string, string | null>;
}
