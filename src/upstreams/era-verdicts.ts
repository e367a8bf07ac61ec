export type EraVerdict = 'modern' | 'handshake';

/** Whether a server speaks the modern era, found out once and remembered. */
export interface EraVerdicts {
  get(server: string): EraVerdict | undefined;
  /** `doubtful` verdicts are asked again after a while. */
  set(server: string, verdict: EraVerdict, doubtful?: boolean): void;
}

const doubtMs = 60_000;

export function createEraVerdicts(configured: Iterable<readonly [string, 'auto' | EraVerdict]>): EraVerdicts {
  const verdicts = new Map<string, { readonly verdict: EraVerdict; readonly until: number }>();
  for (const [server, era] of configured) {
    if (era !== 'auto') verdicts.set(server, { verdict: era, until: Number.POSITIVE_INFINITY });
  }
  return {
    get(server) {
      const known = verdicts.get(server);
      return known !== undefined && Date.now() < known.until ? known.verdict : undefined;
    },
    set(server, verdict, doubtful = false) {
      verdicts.set(server, { verdict, until: doubtful ? Date.now() + doubtMs : Number.POSITIVE_INFINITY });
    },
  };
}
