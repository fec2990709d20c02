/** Fragmentation, the allocator's settings, the version of torch, and what was odd in the file. */

import {Breakable, capitalised, Prose} from '../../kit/prose';
import {binary, count, percent} from '../../model/units';
import {EntryLink} from './go';
import {type DeviceReport, type Report, settingWords} from './report';

/** Each measure with its definition, as `highwater report` has them: no single one is honest alone. */
const MEASURES: [name: keyof DeviceReport['fragmentation'], words: string][] = [
  ['free_at_peak_bytes', 'free at the peak: reserved and in no active block'],
  ['rounding_at_peak_bytes', 'active beyond the requested bytes, at the peak'],
  ['free_bytes', 'free at the dump: reserved and in no active block'],
  ['releasable_bytes', 'of these, in segments with nothing active: `empty_cache()` releases them'],
  ['inactive_split_bytes', 'of these, in segments partly in use, expandable ones not counted (`inactive_split`)'],
  ['largest_free_block_bytes', 'the largest free block'],
  ['rounding_bytes', "active beyond the requested bytes, at the dump: the allocator's rounding"],
  ['private_pool_free_bytes', 'of the free bytes, in private pools: other requests cannot use them'],
  ['other_streams_free_bytes', 'of the free bytes, on streams other than the main one'],
];

export function Facts({report, device}: {report: Report; device: DeviceReport}) {
  const {fragmentation} = device;
  const measures = MEASURES.filter(([name]) => fragmentation[name]);
  const settings = Object.entries(report.settings);
  return (
    <>
      <div class="card">
        <h2>Fragmentation</h2>
        {measures.length === 0 && <p class="faint">No reserved memory is free.</p>}
        <table class="data">
          <tbody>
            {measures.map(([name, words]) => (
              <tr key={name}>
                <td class="number" title={`${count(fragmentation[name] ?? 0)} bytes`}>
                  {binary(fragmentation[name] ?? 0)}
                </td>
                <td>
                  <Prose text={words} />
                  <ShareOf name={name} device={device} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="card">
        <h2>
          Allocator settings
          <span class="faint">
            torch {report.torch.version}
            {!report.torch.known && ' (not recorded: inferred from the file)'}
          </span>
        </h2>
        {settings.length === 0 ? (
          <p class="faint">The file does not record them.</p>
        ) : (
          <dl class="facts wide">
            {settings.map(([name, value]) => (
              <>
                <dt>
                  <Breakable text={name} />
                </dt>
                <dd>{settingWords(name, value)}</dd>
              </>
            ))}
          </dl>
        )}
      </div>
      {report.warnings.length > 0 && (
        <div class="card">
          <h2>Warnings</h2>
          <ul class="warnings">
            {report.warnings.map(({message, count: times, entry}, i) => (
              <li key={i}>
                <Prose text={capitalised(message)} />
                {times > 1 && <span class="faint"> ({count(times)} times)</span>}
                {entry !== undefined && (
                  <>
                    {' '}
                    <EntryLink entry={entry} words={`entry ${count(entry)}`} />
                  </>
                )}
              </li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

function ShareOf({name, device}: {name: string; device: DeviceReport}) {
  const {free_share: free, scattered_share: scattered} = device.fragmentation;
  if (name === 'free_bytes' && typeof free === 'number') return <span class="faint"> ({percent(free)})</span>;
  if (name === 'largest_free_block_bytes' && typeof scattered === 'number') {
    return <span class="faint">; {percent(scattered)} of the free bytes lie outside it</span>;
  }
  return null;
}
