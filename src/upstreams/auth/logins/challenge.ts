/** What a server says about the login it wants, in `WWW-Authenticate` (RFC 6750, RFC 9728). */
export interface Challenge {
  readonly resourceMetadata?: string;
  readonly scopes: readonly string[];
  readonly error?: string;
}

const longest = 8192;
const parameter = /([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/gy;

/** Undefined where no bearer token is asked for. */
export function readChallenge(header: string | undefined): Challenge | undefined {
  if (header === undefined || header.length > longest) return undefined;
  const start = /(?:^|,)\s*bearer(?=[\s,]|$)/i.exec(header);
  if (start === null) return undefined;
  const found = new Map<string, string>();
  let at = start.index + start[0].length;
  for (;;) {
    while (at < header.length && /[\s,]/.test(header[at] as string)) at++;
    parameter.lastIndex = at;
    const match = parameter.exec(header);
    // Another scheme begins where no parameter does.
    if (match === null) break;
    const [whole, name = '', quoted, plain = ''] = match;
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, quoted?.replace(/\\(.)/g, '$1') ?? plain);
    at += whole.length;
  }
  const [resourceMetadata, error] = [found.get('resource_metadata'), found.get('error')];
  return {
    scopes: scopesIn(found.get('scope')),
    ...(resourceMetadata === undefined ? {} : { resourceMetadata }),
    ...(error === undefined ? {} : { error }),
  };
}

const scopeToken = /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/;

export function scopesIn(text: string | undefined): readonly string[] {
  const words = (text ?? '').split(' ').filter((word) => scopeToken.test(word));
  return [...new Set(words)].slice(0, 100);
}
