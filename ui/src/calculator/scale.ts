/** The logarithmic sliders: stops at numbers that people choose. */

/** Numbers of a slider, ascending: four for each doubling, as far as they are whole. */
export function stops(least: number, most: number): number[] {
  const found: number[] = [];
  for (let power = 1; power <= most; power *= 2) {
    for (const quarter of [4, 5, 6, 7]) {
      const stop = (power * quarter) / 4;
      if (Number.isInteger(stop) && stop >= least && stop <= most) found.push(stop);
    }
  }
  return found;
}

/** The place of the stop that is nearest to a number, on a logarithmic scale; of what is no number, the first. */
export function nearest(all: readonly number[], value: number): number {
  if (!(value > 0)) return 0;
  const distance = (stop: number) => Math.abs(Math.log2(stop / value));
  let best = 0;
  for (let place = 1; place < all.length; place++) if (distance(all[place]) < distance(all[best])) best = place;
  return best;
}
