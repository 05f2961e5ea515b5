// Re-exports everything that screens are built from.
export * from "./parts/chart.js";
export * from "./parts/dialog.js";
export * from "./parts/dom.js";
export * from "./parts/form.js";
export * from "./parts/items.js";
export * from "./parts/page.js";
export * from "./parts/progress.js";
export * from "./parts/states.js";
export * from "./parts/table.js";
export * from "./shell/language.js";
