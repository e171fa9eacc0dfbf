/**
 * Directory: the object of a namespace that knows which Hubs have connections.
 *
 * To be connected is to be subscribed to the channel that everybody hears, so the Directory is the
 * object of that channel, with two things more: it drops Hubs that turn out to be empty, and it counts
 * what HTTP callers ask, who have no Hub that could.
 */
import { Tally, type TallyFigures } from "../engine/tally.ts";
import { Channel } from "./channel.ts";

export class Directory extends Channel {
  readonly #tally = new Tally();

  /** Keeps what a door, or a Hub, has counted. */
  absorb(figures: TallyFigures): void {
    this.#tally.absorb(figures, Date.now());
  }

  /** A Hub has no connections any more, and what it has counted is to be kept here. */
  retire(hub: string, figures: TallyFigures): void {
    this.absorb(figures);
    this.leave(hub);
  }

  /** The Hubs that have connections, and what HTTP callers have asked. */
  survey(): { hubs: string[]; figures: TallyFigures } {
    return { hubs: this.hubs(), figures: this.#tally.figures(Date.now()) };
  }

  /** These Hubs had no connections when they were asked. */
  async suspect(hubs: string[]): Promise<void> {
    await this.verify(hubs);
  }
}
