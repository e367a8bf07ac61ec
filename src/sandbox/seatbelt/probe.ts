/** What was seen from inside. */
export interface SeatbeltEnforced {
  readonly noReadingOutside: boolean;
  readonly noWritingOutside: boolean;
  readonly noNetwork: boolean;
}

/** Tries what must fail; the file and the port are there for it. */
export function seatbeltProbeScript(outside: string, port: number): string {
  return [
    `(cat '${outside}/mark') 2>/dev/null && echo 'outside: read'`,
    `(echo x > '${outside}/written') 2>/dev/null && echo 'outside: written'`,
    `/usr/bin/nc -z -w 1 127.0.0.1 ${port} 2>/dev/null && echo 'network: reached'`,
    'echo finished',
  ].join('\n');
}

export function readSeatbeltProbe(said: string): SeatbeltEnforced | undefined {
  const lines = said.split('\n');
  if (!lines.includes('finished')) return undefined;
  return {
    noReadingOutside: !lines.includes('outside: read'),
    noWritingOutside: !lines.includes('outside: written'),
    noNetwork: !lines.includes('network: reached'),
  };
}
