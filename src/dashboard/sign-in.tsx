/** The page that asks for a token, and the one that says why the dashboard cannot be opened. */
import { useState } from "hono/jsx/dom";
import type { ThrottrError } from "../client/index.ts";
import { IS_PART } from "./base.ts";
import { takesTokens } from "./challenge.ts";
import { Button, Failure, Field, Form } from "./controls/index.ts";
import { useEffect } from "./effect.ts";
import { isUnreached } from "./rights.ts";
import { NamespaceList } from "./namespace-picker.tsx";
import { openSession, signIn, signOut, type Outcome, type Session } from "./session.ts";

/** Makes a token with all scopes, in lines that fit. */
const TOKEN_COMMAND = `TOKEN_SECRET=… npx throttr-edge token \\
  --ns my-app \\
  --scopes read,write,publish,subscribe,admin`;
/** How often a server that was not reached is asked again, ms. */
const RETRY_MS = 3000;

interface SignInProps {
  /** The session that is open already; null where the server needs a token. */
  readonly session: Session | null;
  /** Why the token before was refused. */
  readonly error: ThrottrError | null;
  /** Leaves the page. */
  readonly onLeave: () => void;
}

export function SignIn({ session, error, onLeave }: SignInProps) {
  const [refusal, setRefusal] = useState<ThrottrError | null>(error);
  const done = (outcome: Outcome): void => {
    if (outcome === "superseded") return;
    setRefusal(outcome);
    if (outcome === null) onLeave();
  };
  if (session === null && !takesTokens()) return <SessionMissing />;
  return (
    <main class="alone">
      <Logo />
      <h1>Throttr Edge</h1>
      <p class="lead">
        {session === null ? "This deployment needs a token." : "Sign in with a token."}
      </p>
      <Form
        submit="Sign in"
        onSubmit={async (fields) => done(await signIn(fields("token").trim()))}
        also={session === null ? null : <Button label="Back" onPress={onLeave} />}
      >
        <Field label="Token" name="token" type="password" isMono autofocus />
      </Form>
      <Failure error={refusal} />
      {session === null && IS_PART ? (
        <Form
          submit="Retry without a token"
          kind="plain"
          onSubmit={async () => done(await signIn(null))}
        >
          <p class="hint">
            Or sign in to the application that this dashboard is part of, with an account that may
            see it.
          </p>
        </Form>
      ) : null}
      {session?.isWithoutToken && session.grant.isForAllNamespaces ? (
        <section class="part">
          <h2>Or open a namespace without a token</h2>
          <NamespaceList session={session} onChosen={onLeave} />
        </section>
      ) : null}
      <div class="prose hint">
        <p>
          Only this tab keeps the token. The dashboard shows what the scopes of the token allow;
          this command creates a token with all scopes:
        </p>
        <pre>{TOKEN_COMMAND}</pre>
      </div>
    </main>
  );
}

/** For the dashboard of an application whose session is the only way in. */
function SessionMissing() {
  return (
    <main class="alone">
      <Logo />
      <h1>Throttr Edge</h1>
      <p class="lead">Sign in to the application.</p>
      <p class="hint">
        This dashboard is part of an application, and opens with an account that may see it.
      </p>
      <Button label="Retry" kind="primary" icon="reload" onPress={() => void openSession()} />
    </main>
  );
}

/** A token for all namespaces opens none of them by itself, and an open server none where several have records. */
export function NamespaceMissing({ session }: { readonly session: Session }) {
  return (
    <main class="alone">
      <Logo />
      <h1>Throttr Edge</h1>
      <p class="lead">
        {session.token === null
          ? `Nothing in the namespace ${session.grant.namespace}: choose one with records.`
          : "This token is for all namespaces: choose one."}
      </p>
      <NamespaceList session={session} onChosen={() => {}} />
      {session.token === null ? null : (
        <Button label="Sign out" icon="leave" onPress={() => void signOut()} />
      )}
    </main>
  );
}

export function NotOpen({ error }: { readonly error: ThrottrError }) {
  const isAskedAgain = isUnreached(error);
  useEffect(() => {
    if (!isAskedAgain) return;
    const timer = setTimeout(() => void openSession(), RETRY_MS);
    return () => clearTimeout(timer);
  }, [error]);
  return (
    <main class="alone">
      <Logo />
      <h1>Throttr Edge</h1>
      <Failure error={error} isAskedAgain={isAskedAgain} />
      <Button label="Retry" kind="primary" icon="reload" onPress={() => void openSession()} />
    </main>
  );
}

export function Logo() {
  return <img class="logo" src="dashboard/icon.svg" alt="" width="36" height="36" />;
}
