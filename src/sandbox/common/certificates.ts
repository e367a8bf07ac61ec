import { isAbsolute } from 'node:path';
import { certificateVariables } from './base-environment.ts';
import type { Confinement, Mount } from './confinement.ts';
import { createFilter, visibilityRulesOf } from './visibility-filter.ts';

interface CertificateAccess {
  readonly confinement: Confinement;
  /** The variables with the paths inside. */
  readonly env: Readonly<Record<string, string>>;
}

/** The folder of certificate files inside a sandbox. */
const insideFolder = '/run/certificates';

/**
 * Shows the user's files of certificate authorities in a sandbox, each under a fixed name. A file that is hidden, or that
 * a session could exchange, is left out.
 */
export function showCertificates(confinement: Confinement, host: NodeJS.ProcessEnv): CertificateAccess {
  const rules = visibilityRulesOf(confinement);
  const filter = createFilter(rules);
  const found = certificateVariables.flatMap((name): (readonly [string, Mount])[] => {
    const path = host[name] ?? '';
    const real = isAbsolute(path) ? filter.resolvePath(path)?.real : undefined;
    if (real === undefined || !filter.canShowFile(real)) return [];
    const isOpen = (rules.open ?? []).some((folder) => real.startsWith(`${folder}/`));
    return isOpen ? [] : [[name, { source: real, target: `${insideFolder}/${name.toLowerCase()}.pem` }]];
  });
  return {
    confinement: { ...confinement, readable: [...confinement.readable, ...found.map(([, mount]) => mount)] },
    env: Object.fromEntries(found.map(([name, { target }]) => [name, target])),
  };
}
