// The page behind the link that `serve` prints. It makes the first key and shows it once. The token is in the link's fragment
// (after the #), so that no server and no log sees it until the page sends it.

export const claimPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>plumbline: the first key</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 3rem auto; padding: 0 1rem; }
input, button { font: inherit; padding: .3rem .6rem; }
output { display: block; margin-top: 1.5rem; overflow-wrap: anywhere; }
output.key { font-family: monospace; }
</style>
<h1>The first key</h1>
<p>This appliance has no API key yet. Whoever makes the first one administers it.</p>
<form>
<label>Your name: <input name="user" required pattern="[A-Za-z0-9][A-Za-z0-9._@\\-]{0,99}" autocomplete="username"></label>
<button>Make the key</button>
</form>
<output></output>
<section hidden>
<p>On this machine the command line asks with it:</p>
<pre>export PLUMBLINE_KEY=<span class="key"></span></pre>
<p>Next, one of these:</p>
<ul>
<li><code>bin/plumbline try</code> goes the whole way once with the documents of a fictional company: it aligns the starter model in some
eight minutes, shows what that was worth, and leaves the model here to talk to;</li>
<li><code>bin/plumbline document add FILE…</code> begins with documents of your own; <code>bin/plumbline --help</code> has every step;</li>
<li><a href="/docs">/docs</a> names every endpoint of the API, for programs.</li>
</ul>
</section>
<script>
const form = document.querySelector("form");
const output = document.querySelector("output");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = JSON.stringify({ token: location.hash.slice(1), user: form.user.value });
  const response = await fetch("/claim", { method: "POST", headers: { "content-type": "application/json" }, body });
  const answer = await response.json();
  if (response.ok) {
    form.remove();
    history.replaceState(null, "", "/first-key");
    output.className = "key";
    output.textContent = "Keep this key; it is not shown again: " + answer.key;
    document.querySelector("span.key").textContent = answer.key;
    document.querySelector("section").hidden = false;
  } else output.textContent = answer.error.message + ". " + answer.error.hint;
});
</script>
`;
