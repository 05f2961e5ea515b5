// Holds a delivery of webhooks in a process of its own, so that a test can kill it. It ends in order when its stdin closes, and then
// by itself: whatever would keep it is left over.
import { createLog } from "../../src/base/log.ts";
import { onParentGone } from "../../src/base/processes.ts";
import { systemClock } from "../../src/base/time.ts";
import { createWebhooks, targetsOf } from "../../src/domain/webhooks/index.ts";
import { openStore } from "../../src/store/open.ts";

const [database, url, secret] = process.argv.slice(2) as [string, string, string];
const store = openStore(database);
const webhooks = createWebhooks({
  ...{ store, clock: systemClock, log: createLog("error"), targets: targetsOf([url], [secret]) },
});
webhooks.start();
onParentGone(() => void webhooks.close().then(() => store.close()));
