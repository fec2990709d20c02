/** Two ways to show somebody else the same: a page of its own, and the address of this one. */

import {copyText} from '../kit/copy';
import {addressOfState, placeForPage} from '../state/address';
import {dataSource, opened} from '../state/session';
import * as store from '../state/store';

/** Only where a program serves the page: one that is a file is shared as that file. */
export function Share() {
  const source = dataSource();
  if (!source.isServed || !opened.value) return null;
  return (
    <span class="share">
      <a
        class="tab"
        href={source.pageAddress(store.file.value, placeForPage())}
        download=""
        title="Save this recording as one HTML file that opens here, at this place, without highwater"
      >
        Share
      </a>
      <button
        type="button"
        class="plain"
        title="Copy the address of this place. It works on this machine, for as long as highwater serves it"
        onClick={() => {
          const place = addressOfState();
          const here = new URL(place ? `#${place}` : '', document.baseURI).href;
          void copyText(
            here,
            'Link copied. It works on this machine until `highwater view` ends; Share makes a file that stays',
          );
        }}
      >
        Copy link
      </button>
    </span>
  );
}
