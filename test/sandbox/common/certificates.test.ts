import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { showCertificates } from '../../../src/sandbox/common/base-environment.ts';
import type { Confinement } from '../../../src/sandbox/common/confinement.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-certificates-')));
const [workspace, dataDir] = [join(folder, 'workspace'), join(folder, 'data')];
for (const made of [workspace, dataDir]) mkdirSync(made);
for (const name of ['ca.pem', 'workspace/ca.pem', 'data/key', 'secret']) writeFileSync(join(folder, name), '');
symlinkSync('ca.pem', join(folder, 'link.pem'));
symlinkSync('../secret', join(workspace, 'link.pem'));
afterAll(() => rmSync(folder, { recursive: true }));

const confinement = {
  home: { source: workspace, target: workspace },
  readable: [],
  writable: [],
  hidden: [dataDir],
  open: [],
} as unknown as Confinement;

test('certificate files of the user are shown under a fixed name', () => {
  const host = { SSL_CERT_FILE: join(folder, 'link.pem'), NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem') };
  const shown = showCertificates(confinement, host);
  const inside = { ssl: '/run/certificates/ssl_cert_file.pem', node: '/run/certificates/node_extra_ca_certs.pem' };
  expect(shown.env).toEqual({ SSL_CERT_FILE: inside.ssl, NODE_EXTRA_CA_CERTS: inside.node });
  expect(shown.confinement.readable).toEqual(
    [inside.ssl, inside.node].map((target) => ({ source: join(folder, 'ca.pem'), target })),
  );
});

test.each(['data/key', 'workspace/ca.pem', 'workspace/link.pem', 'missing.pem', 'workspace'])(
  'S4: %s is not shown as a certificate: it is hidden, no file, or a session could exchange it',
  (name) => {
    const shown = showCertificates(confinement, { SSL_CERT_FILE: join(folder, name), REQUESTS_CA_BUNDLE: name });
    expect(shown).toEqual({ confinement, env: {} });
  },
);
