/**
 * Directory: the object of a namespace that knows which Hubs have connections.
 *
 * To be connected is to be subscribed to the channel that everybody hears, so the Directory is the
 * object of that channel, with two things more: it drops Hubs that turn out to be empty, and it counts
 * what HTTP callers ask, who have no Hub that could.
 */
import { sumFigures, Tally, type TallyFigures } from "../../engine/tally.ts";
import { Channel } from "./channel.ts";
import { DataPoints } from "../../base/data-points.ts";

/** What a Directory says of its namespace. */
export interface DirectorySurvey {
  hubs: string[];
  /** What HTTP callers have asked, and what was asked in Hubs that have no connections any more. */
  figures: TallyFigures;
  /** The first of the two. Figures of Hubs that come and go by their own names would be counted twice. */
  doors: TallyFigures;
}

export class Directory extends Channel {
  readonly #doors = new Tally();
  readonly #retired = new Tally();
  readonly #points: DataPoints | null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#points = DataPoints.of(
      env,
      (work) => ctx.waitUntil(work),
      { namespace: ctx.id.name!, kind: "door", name: "" },
      () => ({ tally: this.#doors.figures(Date.now()) }),
    );
  }

  /** Keeps what a door has counted. */
  absorb(figures: TallyFigures): void {
    this.#doors.absorb(figures, Date.now());
    this.#points?.note();
  }

  /** A Hub has no connections any more, and what it has counted is to be kept here. */
  async retire(hub: string, figures: TallyFigures): Promise<void> {
    this.#retired.absorb(figures, Date.now());
    await this.leave(hub);
  }

  /** The Hubs that have connections, and what was counted beside them. */
  async survey(): Promise<DirectorySurvey> {
    const nowMs = Date.now();
    const doors = this.#doors.figures(nowMs);
    const figures = sumFigures([doors, this.#retired.figures(nowMs)]);
    return { hubs: await this.hubs(), figures, doors };
  }

  /** These Hubs had no connections when they were asked. */
  async suspect(hubs: string[]): Promise<void> {
    await this.verify(hubs);
  }
}
