import {describe, expect, it} from 'vitest';

import {type DeviceManifest, deviceToOpen, type Manifest} from './manifest';

function manifest(opens_on?: number): Manifest {
  const devices = [0, 1, 2].map(device => ({device}) as DeviceManifest);
  return {devices, opens_on} as Manifest;
}

describe('the device to open', () => {
  it('is the one that is asked for', () => {
    expect(deviceToOpen(manifest(1), 2)?.device).toBe(2);
  });

  it('is the one that the report leads with if none is asked for, or one that is not there', () => {
    expect(deviceToOpen(manifest(1), null)?.device).toBe(1);
    expect(deviceToOpen(manifest(1), 7)?.device).toBe(1);
  });

  it('is the first where the report leads with none', () => {
    expect(deviceToOpen(manifest(), null)?.device).toBe(0);
    expect(deviceToOpen({devices: []} as unknown as Manifest, null)).toBeUndefined();
  });
});
