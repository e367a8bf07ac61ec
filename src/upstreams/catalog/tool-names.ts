import { createHash } from 'node:crypto';

const separator = '__';
/** Hosts refuse longer tool names. */
const longest = 64;

/** What a server's tool or prompt is called among those of all servers: `server__tool`, or a stable short form. */
export function publicName(server: string, name: string): string {
  const full = `${server}${separator}${name}`;
  if (full.length <= longest) return full;
  const hash = createHash('sha256').update(full).digest('hex').slice(0, 8);
  return `${full.slice(0, longest - 9)}_${hash}`;
}

/** Server names have no "__", so the first one parts the name. Undefined when there is none. */
export function splitName(name: string): { readonly server: string; readonly name: string } | undefined {
  const at = name.indexOf(separator);
  return at < 1 ? undefined : { server: name.slice(0, at), name: name.slice(at + separator.length) };
}
