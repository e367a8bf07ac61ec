// The peers are pinned by a lockfile of their own and installed only when the bench needs them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './processes.js';

const home = fileURLToPath(new URL('peers/', import.meta.url));
const { dependencies } = readJson(join(home, 'package.json'));

export async function installPeers() {
  const missing = Object.entries(dependencies).filter(([name, version]) => installedVersion(name) !== version);
  if (missing.length === 0) return;
  console.error(`Installing ${missing.map((pin) => pin.join('@')).join(' and ')} for the comparison.`);
  await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', home], { cwd: home });
}

export function peerLabel(name) {
  return `${name} ${dependencies[name]}`;
}

// The file behind the package's command, so that no npm or shell stands between the bench and the peer.
export function peerScript(name) {
  const { bin } = readJson(join(home, 'node_modules', name, 'package.json'));
  return join(home, 'node_modules', name, typeof bin === 'string' ? bin : bin[name]);
}

function installedVersion(name) {
  try {
    return readJson(join(home, 'node_modules', name, 'package.json')).version;
  } catch {
    return undefined;
  }
}

function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}
