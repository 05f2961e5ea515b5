// Replaces a module of the product for everyone but its replacement. For ablations: the product has no such switches.
import { registerHooks } from "node:module";

export function replaceModule(product: URL, replacement: URL): void {
  registerHooks({
    resolve(specifier, context, next) {
      const resolved = next(specifier, context);
      return resolved.url === product.href && context.parentURL !== replacement.href
        ? { ...resolved, url: replacement.href }
        : resolved;
    },
  });
}
