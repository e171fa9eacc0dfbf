/** The page that asks for a token, and the one that says why nothing can be asked. */
import type { ThrottrError } from "../client/index.ts";
import { Button, detailOf, Failure, Field, Form } from "./controls.tsx";
import { useAction } from "./hooks.ts";
import { openSession, signIn } from "./session.ts";

/** Makes a token that may do everything, in lines that fit. */
const TOKEN_COMMAND = `TOKEN_SECRET=… npm run -s token -- \\
  --ns my-app \\
  --scopes read,write,publish,subscribe,admin`;

export function SignIn({ error }: { readonly error: ThrottrError | null }) {
  const action = useAction();
  return (
    <main class="alone">
      <Logo />
      <h1>Throttr Edge</h1>
      <p class="lead">This deployment asks for a token.</p>
      <Form
        submit="Open"
        action={action}
        onSubmit={async (fields) => await signIn(fields("token").trim())}
      >
        <Field label="Token" name="token" type="password" isMono autofocus />
      </Form>
      <Failure error={error} />
      <div class="prose hint">
        <p>
          It is kept for this tab only. To see everything it needs the scopes <code>read</code>,{" "}
          <code>write</code>, <code>publish</code>, <code>subscribe</code> and <code>admin</code>;
          with fewer, what it does not allow is not shown.
        </p>
        <pre>{TOKEN_COMMAND}</pre>
      </div>
    </main>
  );
}

export function NotOpen({ error }: { readonly error: ThrottrError }) {
  return (
    <main class="alone">
      <Logo />
      <h1>Throttr Edge</h1>
      <p class="lead">{detailOf(error)}</p>
      <p class="hint">
        <code>{error.code}</code>
      </p>
      <Button label="Try again" kind="primary" icon="reload" onPress={() => void openSession()} />
    </main>
  );
}

export function Logo() {
  return <img class="logo" src="/dashboard/icon.svg" alt="" width="36" height="36" />;
}
