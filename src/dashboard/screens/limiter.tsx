/**
 * Tries a rate limit by hand: the decision, how much is left, and when it is available again.
 *
 * The configuration of a limit comes with each request and is not stored, so the form has all of it. Ranges are left to
 * the server: its errors name field and limit.
 */
import { useRef, useState } from "hono/jsx/dom";
import { type LimitRequest, type LimitResult, type QuotaResult } from "../../client/index.ts";
import {
  Bar,
  Button,
  Card,
  Choice,
  Countdown,
  Empty,
  Failure,
  Field,
  fieldsOf,
  ScreenHead,
  TimeFields,
} from "../controls/index.ts";
import { formatCount, formatTime, shareOf } from "../format.ts";
import { notify, useAction } from "../hooks.ts";
import { Icon } from "../icons.tsx";
import { useTextParameter } from "../place.ts";
import { serverNowMs } from "../server-clock.ts";
import { lacksScope, type Session } from "../session.ts";
import {
  STRATEGIES,
  STRATEGY_HINTS,
  numberOf,
  strategyOf,
  type StrategyName,
  type UnitName,
} from "../strategies.ts";

const QUOTAS_MAX = 8;
const HISTORY_MAX = 30;

type Call = "limit" | "peek" | "refund";

interface Answer {
  readonly number: number;
  readonly call: Call;
  readonly atMs: number;
  readonly result: LimitResult;
  /** When the same request would be granted, by the server's clock; null where it was, or never will be. */
  readonly retryAtMs: number | null;
}

const CALL_NAMES: Readonly<Record<Call, string>> = {
  limit: "Check",
  peek: "Peek",
  refund: "Refund",
};

export function LimiterScreen({ session }: { readonly session: Session }) {
  const { throttr } = session;
  const [name] = useTextParameter("name", "api");
  const isChargeable = !lacksScope(session, "write");
  const form = useRef<HTMLFormElement>(null);
  const [strategy, setStrategy] = useState<StrategyName>("token_bucket");
  const [quotas, setQuotas] = useState(1);
  const [answers, setAnswers] = useState<readonly Answer[]>([]);
  /** The last request: the fields may have changed since. */
  const [asked, setAsked] = useState<LimitRequest | null>(null);
  const action = useAction();

  const requestOf = (): LimitRequest => {
    const field = fieldsOf(form.current!);
    return {
      name: field("limiter"),
      key: field("key"),
      strategy: strategyOf(strategy, field, quotas),
      cost: isChargeable ? numberOf(field("cost"), "cost", "cost_invalid") : 1,
    };
  };
  const call = (name: Call): void =>
    action.run(async () => {
      const whole = requestOf();
      setAsked(whole);
      const { cost, ...request } = whole;
      const result = await throttr[name](name === "peek" ? request : { ...request, cost: cost! });
      const { retryAfterMs, success } = result;
      const answer = {
        number: (answers[0]?.number ?? 0) + 1,
        call: name,
        atMs: serverNowMs(),
        result,
        retryAtMs: success || retryAfterMs === null ? null : serverNowMs() + retryAfterMs,
      };
      setAnswers([answer, ...answers].slice(0, HISTORY_MAX));
    });
  const reset = (requestToForget: () => LimitRequest): void =>
    action.run(async () => {
      const { cost: _, ...request } = requestToForget();
      const isForgotten = await throttr.reset(request);
      setAnswers([]);
      notify(isForgotten ? "The limit was reset" : "The limit had no state to reset");
    });
  return (
    <>
      <ScreenHead title="Limiter" lead="Try a rate limit by hand">
        {lacksScope(session, "admin") ? null : (
          <a class="button plain" href="#limits">
            <Icon name="previous" />
            All limits
          </a>
        )}
      </ScreenHead>
      <div class="columns">
        <Card title="Strategy">
          <form
            ref={form}
            class="form"
            novalidate
            onSubmit={(event: Event) => {
              event.preventDefault();
              call(isChargeable ? "limit" : "peek");
            }}
          >
            <div class="pair">
              <Field label="Name" name="limiter" value={name} isMono />
              <Field label="Key" name="key" value="user:42" isMono />
            </div>
            <Choice
              label="Strategy"
              name="strategy"
              options={STRATEGIES}
              value={strategy}
              onChoice={(name) => {
                setStrategy(name as StrategyName);
                setAnswers([]);
              }}
            />
            <p class="hint">{STRATEGY_HINTS[strategy]}</p>
            <StrategyFields strategy={strategy} quotas={quotas} onQuotas={setQuotas} />
            {isChargeable ? <Field label="Cost" name="cost" value="1" isNumber /> : null}
            <div class="form-actions">
              <button
                class="button primary"
                type="submit"
                aria-disabled={action.isBusy ? "true" : null}
              >
                <span>{isChargeable ? "Check" : "Peek"}</span>
              </button>
              {isChargeable ? (
                <>
                  <Button label="Peek" onPress={() => call("peek")} isBusy={action.isBusy} />
                  <Button label="Refund" onPress={() => call("refund")} isBusy={action.isBusy} />
                  <Button
                    label="Reset"
                    kind="danger"
                    onPress={() => reset(requestOf)}
                    isBusy={action.isBusy}
                  />
                </>
              ) : null}
            </div>
            <Failure error={action.error}>
              {action.error?.code === "state_invalid" && asked !== null && isChargeable ? (
                <Button
                  label="Reset this limit"
                  kind="danger"
                  onPress={() => reset(() => asked)}
                  isBusy={action.isBusy}
                />
              ) : null}
            </Failure>
          </form>
        </Card>
        <div class="stack">
          <Card title="Result">
            {answers[0] === undefined ? (
              <Empty title="No request yet">
                {isChargeable
                  ? "Check charges the cost if the request is granted. A refusal costs nothing, and neither does Peek."
                  : "Peek costs nothing. Check needs a token with the scope write."}
              </Empty>
            ) : (
              <AnswerView answer={answers[0]} />
            )}
          </Card>
          {answers.length < 2 ? null : (
            <Card title="Previous results">
              <ol class="history">
                {answers.slice(1).map(({ number, call, atMs, result }) => (
                  <li key={number}>
                    <time class="figure">{formatTime(atMs)}</time>
                    <span>{CALL_NAMES[call]}</span>
                    <Verdict call={call} result={result} />
                    <span class="figure">{formatCount(result.remaining)} left</span>
                  </li>
                ))}
              </ol>
            </Card>
          )}
        </div>
      </div>
    </>
  );
}

function StrategyFields({
  strategy,
  quotas,
  onQuotas,
}: {
  readonly strategy: StrategyName;
  readonly quotas: number;
  readonly onQuotas: (quotas: number) => void;
}) {
  const hasQuotas = strategy === "fixed_window" || strategy === "composite";
  const hasBucket = !hasQuotas && strategy !== "sliding_window";
  return (
    <div class="form" key={strategy}>
      {hasQuotas ? <QuotaFields quotas={quotas} onQuotas={onQuotas} /> : null}
      {strategy === "composite" ? (
        <Choice
          label="Second strategy"
          name="secondary"
          value="token_bucket"
          options={{
            token_bucket: STRATEGIES.token_bucket,
            leaky_bucket: STRATEGIES.leaky_bucket,
            gcra: STRATEGIES.gcra,
          }}
        />
      ) : null}
      {hasBucket || strategy === "composite" ? (
        <div class="pair">
          <Field label="Burst" name="burst" value="10" isNumber />
          <Field label="Rate per second" name="rate" value="1" isNumber />
        </div>
      ) : null}
      {strategy === "sliding_window" ? (
        <div class="triple">
          <Field label="Limit" name="limit" value="10" isNumber />
          <TimeFields label="Window" name="window" unitName="unit" value="1" unit="min" />
        </div>
      ) : null}
    </div>
  );
}

const QUOTA_NAMES = ["default", "hour", "day", "week", "month", "more", "most", "all"];
const QUOTA_DEFAULTS: readonly (readonly [limit: string, window: string, unit: UnitName])[] = [
  ["10", "1", "min"],
  ["100", "1", "h"],
  ["1000", "1", "d"],
  ["5000", "7", "d"],
];

function QuotaFields({
  quotas,
  onQuotas,
}: {
  readonly quotas: number;
  readonly onQuotas: (quotas: number) => void;
}) {
  return (
    <fieldset class="quotas">
      <legend>Quotas</legend>
      {Array.from({ length: quotas }, (_, i) => {
        const [limit, window, unit] = QUOTA_DEFAULTS[i] ?? (["", "", "d"] as const);
        return (
          <div class="quota" key={i}>
            <Field label="Name of quota" name={`name.${i}`} value={QUOTA_NAMES[i]!} isMono />
            <Field label="Limit" name={`limit.${i}`} value={limit} isNumber />
            <TimeFields
              label="Window"
              name={`window.${i}`}
              unitName={`unit.${i}`}
              value={window}
              unit={unit}
            />
          </div>
        );
      })}
      <div class="form-actions">
        <Button
          label="Add quota"
          icon="add"
          disabled={quotas === QUOTAS_MAX}
          onPress={() => onQuotas(quotas + 1)}
        />
        <Button
          label="Remove last quota"
          disabled={quotas === 1}
          onPress={() => onQuotas(quotas - 1)}
        />
      </div>
    </fieldset>
  );
}

function Verdict({ call, result }: { readonly call: Call; readonly result: LimitResult }) {
  const words = call === "refund" ? ["Refunded", "Refunded"] : ["Granted", "Refused"];
  return (
    <span class={`verdict ${result.success ? "good" : "bad"}`}>
      <Icon name={result.success ? "check" : "close"} />
      {result.success ? words[0] : words[1]}
    </span>
  );
}

function AnswerView({ answer: { call, result, retryAtMs, number } }: { readonly answer: Answer }) {
  const quotas = Object.entries(result.quotas);
  return (
    <div class="answer" key={number}>
      <p class="answer-head" role="status">
        <Verdict call={call} result={result} />
        <span class="figure">
          {formatCount(result.remaining)} of {formatCount(result.limit)} left
        </span>
      </p>
      {result.reason === undefined ? null : (
        <p class="hint">The cost is above the limit: waiting does not help.</p>
      )}
      {retryAtMs === null ? null : (
        <p class="hint">
          Available again{" "}
          <Countdown
            untilMs={retryAtMs}
            before="in "
            ended="now, unless another caller was faster"
          />
        </p>
      )}
      <div class="quota-results">
        {quotas.map(([name, quota]) => (
          <QuotaView key={name} name={name} quota={quota} isOnly={quotas.length === 1} />
        ))}
      </div>
    </div>
  );
}

function QuotaView({
  name,
  quota: { allowed, limit, remaining, reset },
  isOnly,
}: {
  readonly name: string;
  readonly quota: QuotaResult;
  readonly isOnly: boolean;
}) {
  return (
    <div class="quota-result">
      <p class="quota-name">
        <code>{isOnly ? "remaining" : name}</code>
        <span class="hint">
          {reset === null ? (
            "no reset time"
          ) : (
            <>
              resets <Countdown untilMs={reset} before="in " ended="now" />
            </>
          )}
        </span>
      </p>
      <Bar
        label={`Remaining of ${name}`}
        share={shareOf(remaining, limit)}
        text={`${formatCount(remaining)} of ${formatCount(limit)}`}
        tone={allowed ? "good" : "bad"}
      />
    </div>
  );
}
