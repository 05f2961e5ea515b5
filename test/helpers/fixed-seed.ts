// Properties are tried on the same inputs every time, so that what fails on one machine fails on all. FC_SEED tries others.
import fc from "fast-check";

fc.configureGlobal({ seed: Number(process.env.FC_SEED ?? 20_261_121) });
