// The queue of waiting requests. Priorities come in order, owners in turn, and each owner's requests in the order of arrival.
import type { Priority } from "../generator.ts";

const priorities: readonly Priority[] = ["interactive", "evaluation", "generation"];

export class Waiting<T extends { priority: Priority; owner: string }> {
  /** For each priority, the owners in the order of their turns, each with a queue that is never empty. */
  private readonly queues = new Map<Priority, Map<string, T[]>>(priorities.map((priority) => [priority, new Map()]));
  size = 0;

  add(item: T): void {
    const owners = this.queues.get(item.priority)!;
    const queue = owners.get(item.owner);
    if (queue === undefined) owners.set(item.owner, [item]);
    else queue.push(item);
    this.size++;
  }

  /**
   * Removes and returns the next item, or with `interactiveOnly` the next interactive one; null if there is none. The item's owner
   * then has the last turn.
   */
  take(interactiveOnly: boolean): T | null {
    for (const priority of interactiveOnly ? priorities.slice(0, 1) : priorities) {
      const owners = this.queues.get(priority)!;
      const first = owners.entries().next();
      if (first.done) continue;
      const [owner, queue] = first.value;
      const item = queue.shift()!;
      owners.delete(owner);
      if (queue.length > 0) owners.set(owner, queue);
      this.size--;
      return item;
    }
    return null;
  }

  /** Removes an item. Returns false if the item is not waiting any more. */
  remove(item: T): boolean {
    const owners = this.queues.get(item.priority)!;
    const queue = owners.get(item.owner);
    const at = queue?.indexOf(item) ?? -1;
    if (queue === undefined || at < 0) return false;
    queue.splice(at, 1);
    if (queue.length === 0) owners.delete(item.owner);
    this.size--;
    return true;
  }

  some(test: (item: T) => boolean): boolean {
    for (const owners of this.queues.values()) for (const queue of owners.values()) if (queue.some(test)) return true;
    return false;
  }
}
