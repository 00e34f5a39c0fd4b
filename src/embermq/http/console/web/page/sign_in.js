// @ts-check
/** The page to sign in. */

import { html, useEffect } from "../vendor/preact-htm.js";
import { Field, Form, useFields } from "../component/form.js";
import { Brand, LostBanner } from "../component/layout.js";
import { ask, lost, session } from "../lib/api.js";
import { useSignal } from "../lib/signal.js";

const ABOUT = html`On a new broker there is the user <code>guest</code> with the password <code>guest</code>, from the
  broker's own machine only. The user needs the tag <code>management</code> or one that includes it.`;

export function SignIn() {
  const [fields, change] = useFields({ username: "", password: "" });
  const isLost = useSignal(lost);
  useEffect(() => {
    document.title = "Sign in – EmberMQ";
    document.getElementById("field-username")?.focus();
  }, []);
  return html`<main id="main" class="sign-in">
    <h1 class="brand"><${Brand} /></h1>
    ${isLost && html`<${LostBanner} />`}
    <${Form} label="Sign in" verb="Sign in" submit=${async () => session.set(await ask("POST", "/session", fields))}>
      <${Field} label="User" name="username" value=${fields.username} onInput=${change("username")} isRequired autocomplete="username" />
      <${Field} label="Password" name="password" type="password" value=${fields.password} onInput=${change("password")} autocomplete="current-password" />
    <//>
    <p><small>${ABOUT}</small></p>
  </main>`;
}
