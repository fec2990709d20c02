/** The card that lists every key. */

import {signal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {commandGroups, keyName} from '../kit/keys';
import {EXAMPLES} from '../model/search-query';

export const isHelpOpen = signal(false);

export function HelpCard() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isHelpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isHelpOpen.value]);
  if (!isHelpOpen.value) return null;
  return (
    <dialog ref={dialog} class="help" aria-label="Help" onClose={() => (isHelpOpen.value = false)}>
      <form method="dialog">
        <button type="submit" class="plain close" aria-label="Close">
          ×
        </button>
      </form>
      <div class="columns">
        <section>
          <h2>Search</h2>
          <dl>
            {EXAMPLES.map(({words, help}) => (
              <Line key={words} keys={words} help={help} />
            ))}
          </dl>
        </section>
        {commandGroups().map(({title, commands, gestures = []}) => (
          <section key={title}>
            <h2>{title}</h2>
            <dl>
              {gestures.map(({hands, help}) => (
                <Line key={hands} keys={hands} help={help} />
              ))}
              {commands.map(({keys, help}) => (
                <Line key={help} keys={keys.map(keyName).join(' ')} help={help} />
              ))}
            </dl>
          </section>
        ))}
      </div>
    </dialog>
  );
}

function Line({keys, help}: {keys: string; help: string}) {
  return (
    <>
      <dt>
        <kbd>{keys}</kbd>
      </dt>
      <dd>{help}</dd>
    </>
  );
}
