// A thread that asks for /healthz every 100 ms and keeps the longest wait.
import { Agent, get } from "node:http";
import { parentPort } from "node:worker_threads";

const everyMs = 100;
const agent = new Agent({ keepAlive: true });
let url: string | null = null;
let worst = 0;

parentPort!.on("message", (message: { url?: string | null; take?: true }) => {
  if (message.url !== undefined) url = message.url;
  if (message.take) {
    parentPort!.postMessage(worst);
    worst = 0;
  }
});

setInterval(() => {
  if (url === null) return;
  const [asked, from] = [url, performance.now()];
  const count = (): void => {
    // A restart in between is no stall.
    if (url === asked) worst = Math.max(worst, performance.now() - from);
  };
  get(`${url}/healthz`, { agent }, (response) => response.resume().on("end", count)).on("error", () => {});
}, everyMs);
