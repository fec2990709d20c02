/** The best value of any stretch of a column. */

/** Nodes of one level under one node of the next. */
const FAN = 8;

/** The best value of any stretch of a column, by a tree of the best of each `FAN`. */
export class Extremes {
  /** Whether the first is strictly better. */
  readonly beats: (a: number, b: number) => boolean;
  private readonly values: Float64Array;
  /** For each level, the place in `values` of the best under each node. */
  private readonly levels: Uint32Array[] = [];

  constructor(values: Float64Array, beats: (a: number, b: number) => boolean) {
    this.values = values;
    this.beats = beats;
    for (let below = values.length; below > FAN; below = this.levels[this.levels.length - 1].length) {
      const children = this.levels.at(-1);
      const level = new Uint32Array(Math.ceil(below / FAN));
      for (let node = 0; node < level.length; node++) {
        let best = children ? children[node * FAN] : node * FAN;
        for (let child = node * FAN + 1; child < Math.min((node + 1) * FAN, below); child++) {
          const place = children ? children[child] : child;
          if (beats(values[place], values[best])) best = place;
        }
        level[node] = best;
      }
      this.levels.push(level);
    }
  }

  get bytes(): number {
    return this.levels.reduce((sum, level) => sum + level.byteLength, this.values.byteLength);
  }

  at(place: number): number {
    return this.values[place];
  }

  /** The first place of the best value from `from` up to and without `to`. */
  bestIn(from: number, to: number): number {
    let best = from;
    const see = (place: number) => {
      const better = this.beats(this.values[place], this.values[best]);
      if (better || (this.values[place] === this.values[best] && place < best)) best = place;
    };
    let low = from;
    let high = to;
    for (let level = -1; low < high; level++) {
      const places = this.levels[level];
      const isTop = level + 1 >= this.levels.length;
      for (; low < high && (isTop || low % FAN !== 0); low++) see(places ? places[low] : low);
      for (; low < high && high % FAN !== 0; high--) see(places ? places[high - 1] : high - 1);
      low /= FAN;
      high /= FAN;
    }
    return best;
  }
}
