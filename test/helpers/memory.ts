// What a run remembers of a model's answers, where nothing needs to outlive the process.
import type { Memory } from "../../src/run/folder/memory.ts";

export function memoryInProcess(): Memory {
  const kept = new Map<string, string>();
  return {
    secondsBefore: 0,
    get: async (key) => kept.get(key),
    put: async (key, answer) => void kept.set(key, answer),
    close: async () => {},
  };
}
