/** A card beside the pointer, on the side where there is room. */

import type {ComponentChildren} from 'preact';

/** How much room a card may need, in CSS pixels. */
const ROOM = {x: 460, y: 240};
const GAP_CSS = 14;

/** `x` and `y` are CSS pixels from the window's upper left corner. */
export function FloatingCard({x, y, children}: {x: number; y: number; children: ComponentChildren}) {
  const isRight = x > innerWidth - ROOM.x;
  const isLow = y > innerHeight - ROOM.y;
  const style = {
    [isRight ? 'right' : 'left']: `${(isRight ? innerWidth - x : x) + GAP_CSS}px`,
    [isLow ? 'bottom' : 'top']: `${(isLow ? innerHeight - y : y) + GAP_CSS}px`,
  };
  return (
    <div class="tooltip" style={style} role="status">
      {children}
    </div>
  );
}
