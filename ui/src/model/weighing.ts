/** By which weight stacks are drawn. */

/** What is weighed: `byte-time` is bytes × lifetime. */
export const WEIGHINGS = ['live', 'highest', 'allocated', 'kept', 'byte-time'] as const;

/** One of `WEIGHINGS`. */
export type Weighing = (typeof WEIGHINGS)[number];
