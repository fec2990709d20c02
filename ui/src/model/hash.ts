/** A number made from a text: the same in every file and on every machine. */

/** 32 bits of a text (FNV-1a over its UTF-16 units). `seed` is the number of what came before it. */
export function hashOf(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
