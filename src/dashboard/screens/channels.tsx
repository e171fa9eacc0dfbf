/** Channels: their subscriptions, a form that publishes, and the messages of one channel as they come. */
import { useRef, useState } from "hono/jsx/dom";
import { useEffect } from "../effect.ts";
import type { Subscription, ThrottrError } from "../../client/index.ts";
import { listChannels, type ChannelList, type ListedChannel } from "../channel-list.ts";
import {
  Allowed,
  Area,
  Button,
  Card,
  Empty,
  Failure,
  Field,
  figures,
  Form,
  Loading,
  Opener,
  Refresh,
  ScreenHead,
  Table,
} from "../controls/index.ts";
import { counted, formatBytes, formatTime } from "../format.ts";
import { notify, useListed } from "../hooks.ts";
import { bytesOfName } from "../names.ts";
import { useOpened } from "../place.ts";
import { jsonOf } from "../server.ts";
import { failureOf, lacksScope, type Session } from "../session.ts";
import type { Fields } from "../strategies.ts";
import { beginningOf, nameText, type Beginning } from "../value-text.ts";

/** Until a new subscription is listed, ms: the Hub tells its channel of it first. */
const RELOAD_DELAY_MS = 500;
/** Messages that stay on the page. */
const SHOWN_MAX = 200;
/** Longer messages are cut. */
const SHOWN_BYTES_MAX = 4096;
/** How often new messages are shown. */
const SHOW_EVERY_MS = 100;

const bytesOf = (listed: ListedChannel): Uint8Array => bytesOfName(listed, "channel");

export function ChannelsScreen({ session }: { readonly session: Session }) {
  const [tailed, setTailed] = useOpened("channel");
  const isListable = !lacksScope(session, "admin");
  const channels = useListed(
    isListable
      ? async (signal) =>
          await listChannels(async (path) => await jsonOf(session, path, { signal }))
      : null,
    [session],
  );
  return (
    <>
      <ScreenHead title="Channels" lead="Messages reach all current subscribers">
        {isListable ? <Refresh of={channels} /> : null}
      </ScreenHead>
      <div class="columns">
        <Card title="Channels with subscribers">
          <Allowed session={session} scope="admin">
            <Loading of={channels} rows={5}>
              {(list) => <ChannelTable list={list} onTail={setTailed} />}
            </Loading>
          </Allowed>
        </Card>
        <div class="stack">
          <Card title="Publish">
            <Allowed session={session} scope="publish">
              <PublishForm session={session} onPublish={channels.reload} />
            </Allowed>
          </Card>
          <Card title="Live messages">
            <Allowed session={session} scope="subscribe">
              <Tail
                session={session}
                channel={tailed}
                onTail={(channel) => {
                  setTailed(channel);
                  setTimeout(channels.reload, RELOAD_DELAY_MS);
                }}
              />
            </Allowed>
          </Card>
        </div>
      </div>
    </>
  );
}

function ChannelTable({
  list: { named, own, isWhole },
  onTail,
}: {
  readonly list: ChannelList;
  readonly onTail: (channel: Uint8Array) => void;
}) {
  return (
    <>
      {named.length === 0 ? (
        <Empty title="No subscribers">A channel is listed while it has subscribers.</Empty>
      ) : (
        <Table
          label="Channels"
          rows={named}
          keyOf={({ channel, channelBase64 }) => channel ?? `base64 ${channelBase64}`}
          columns={[
            {
              head: "Channel",
              isTitle: true,
              cell: (listed) => (
                <Opener
                  text={nameText(bytesOf(listed))}
                  title="Listen to this channel"
                  onOpen={() => onTail(bytesOf(listed))}
                />
              ),
            },
            figures("Subscriptions", ({ subscriptions }: ListedChannel) => subscriptions),
            figures(
              "Published",
              ({ publishedBytes }: ListedChannel) => publishedBytes,
              formatBytes,
            ),
            figures(
              "Delivered",
              ({ deliveredBytes }: ListedChannel) => deliveredBytes,
              formatBytes,
            ),
          ]}
        />
      )}
      <p class="hint">
        {named.length === 0 ? "" : "Published and Delivered count bytes of present subscribers. "}
        Messages to <code>*</code> reach all connections.
        {own === 0
          ? ""
          : ` Each connection also has a channel of its own, named by its ID; this table leaves out ${counted(own, "such channel")}.`}
        {isWhole ? "" : " There are more channels than are listed."}
      </p>
    </>
  );
}

function PublishForm({
  session: { throttr },
  onPublish,
}: {
  readonly session: Session;
  readonly onPublish: () => void;
}) {
  const publish = async (fields: Fields): Promise<void> => {
    const channel = fields("channel");
    const isTaken = await throttr.publish(channel, fields("payload"));
    notify(isTaken ? `Published to ${channel}` : `${channel} has no subscribers`);
    onPublish();
  };
  return (
    <Form submit="Publish" onSubmit={publish}>
      <Field label="Channel" name="channel" placeholder="news" isMono />
      <Area label="Message" name="payload" rows={2} />
    </Form>
  );
}

interface Shown extends Beginning {
  readonly number: number;
  readonly atMs: number;
  readonly bytes: number;
}

type TailStatus = "connecting" | "listening" | "ended";

const STATUS_TEXT: Readonly<Record<TailStatus, string>> = {
  connecting: "Connecting…",
  listening: "Listening",
  ended: "Ended",
};

function Tail({
  session,
  channel,
  onTail,
}: {
  readonly session: Session;
  readonly channel: Uint8Array | null;
  readonly onTail: (channel: Uint8Array | null) => void;
}) {
  const tail = useTail(session, channel);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // On a narrow screen it is far below the list.
    if (channel !== null) place.current?.scrollIntoView({ block: "nearest" });
  }, [channel]);
  return (
    <div ref={place} class="stack tail">
      <Form
        submit={channel === null ? "Listen" : "Switch channel"}
        kind={channel === null ? "primary" : "plain"}
        isInline
        onSubmit={async (fields) => onTail(new TextEncoder().encode(fields("channel")))}
        also={channel === null ? null : <Button label="Stop" onPress={() => onTail(null)} />}
      >
        <Field label="Channel" name="channel" placeholder="news" isMono />
      </Form>
      {channel === null ? (
        <Empty title="Not listening">
          Enter a channel to see its messages as they are published.
        </Empty>
      ) : (
        <>
          <p class="tail-head">
            <span class={`status hint ${tail.status === "listening" ? "live" : "connecting"}`}>
              <span class="dot" />
              {STATUS_TEXT[tail.status]}
            </span>
            <code>{nameText(channel)}</code>
            <span class="figure">{counted(tail.count, "message")}</span>
          </p>
          <Failure error={tail.error} />
          {tail.missed === 0 ? null : (
            <p class="hint">{counted(tail.missed, "message")} arrived too fast to be shown.</p>
          )}
          <ol class="messages" aria-live="polite" aria-relevant="additions" aria-label="Messages">
            {tail.messages.map(({ number, atMs, text, isHex, isCut, bytes }) => (
              <li key={number}>
                <span class="message-head">
                  <time>{formatTime(atMs)}</time>
                  <span>
                    {formatBytes(bytes)}
                    {isCut ? `, the first ${formatBytes(SHOWN_BYTES_MAX)} shown` : ""}
                  </span>
                </span>
                <pre class={isHex ? "hex" : ""}>{text === "" ? "(empty)" : text}</pre>
              </li>
            ))}
          </ol>
        </>
      )}
    </div>
  );
}

interface TailState {
  readonly status: TailStatus;
  /** The latest first. */
  readonly messages: readonly Shown[];
  /** All messages since the beginning, also those that are not kept. */
  readonly count: number;
  readonly missed: number;
  readonly error: ThrottrError | null;
}

const NOTHING: TailState = { status: "connecting", messages: [], count: 0, missed: 0, error: null };

/** Listens to a channel; null: to none. The latest messages are collected, and shown ten times a second. */
function useTail(session: Session, channel: Uint8Array | null): TailState {
  const [state, setState] = useState<TailState>(NOTHING);
  const known = useRef<TailState>(NOTHING);
  useEffect(() => {
    if (channel === null) return;
    known.current = NOTHING;
    setState(NOTHING);
    const subscription = session.throttr.subscribe(channel, { overflow: "drop_oldest" });
    let isStopped = false;
    let timer: ReturnType<typeof setTimeout> | null = null;
    // A channel may have thousands of messages a second: rendering for each would stop the page.
    const show = (part: Partial<TailState>): void => {
      known.current = { ...known.current!, ...part };
      timer ??= setTimeout(() => {
        timer = null;
        if (!isStopped) setState(known.current!);
      }, SHOW_EVERY_MS);
    };
    subscription.ready.then(() => show({ status: "listening" })).catch(() => {});
    read(subscription, () => known.current!, show).catch((error: unknown) => {
      if (!isStopped) show({ status: "ended", error: failureOf(error) });
    });
    return () => {
      isStopped = true;
      clearTimeout(timer ?? undefined);
      void subscription.return();
    };
  }, [session, channel]);
  return state;
}

async function read(
  subscription: Subscription,
  known: () => TailState,
  show: (part: Partial<TailState>) => void,
): Promise<void> {
  for await (const { payload, missed } of subscription) {
    const before = known();
    const message = {
      ...beginningOf(payload, SHOWN_BYTES_MAX),
      number: before.count,
      atMs: Date.now(),
      bytes: payload.length,
    };
    show({
      messages: [message, ...before.messages].slice(0, SHOWN_MAX),
      count: before.count + 1,
      missed: before.missed + missed,
    });
  }
  show({ status: "ended" });
}
