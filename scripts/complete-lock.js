// npm leaves a platform's optional package out of the lockfile when the registry it was written against does not
// have it, and `npm ci` then refuses the lockfile everywhere. This writes the missing entries, so that each platform
// finds its own and skips the rest. Run it after changing dependencies: node scripts/complete-lock.js [folder]
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const file = join(process.argv[2] ?? '.', 'package-lock.json');
const lock = JSON.parse(readFileSync(file, 'utf8'));
const systems = ['darwin', 'linux', 'win32', 'android', 'freebsd', 'openbsd', 'netbsd', 'sunos', 'aix', 'openharmony'];
const processors = ['arm64', 'x64', 'ia32', 'arm', 'riscv64', 'ppc64', 's390x', 'loong64', 'mips64el', 'wasm32'];
let added = 0;

for (const [place, entry] of Object.entries({ ...lock.packages })) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    if (`node_modules/${name}` in lock.packages || `${place}/node_modules/${name}` in lock.packages) continue;
    const words = name.split(/[-/]/);
    const os = systems.filter((system) => words.includes(system));
    const cpu = processors.filter(
      (processor) => words.includes(processor) || (processor === 'arm' && /-arm-/.test(name)),
    );
    if (os.length === 0 && cpu.length === 0) continue;
    lock.packages[`node_modules/${name}`] = {
      version: version.replace(/^[\^~]/, ''),
      ...(cpu.length > 0 ? { cpu } : {}),
      ...(entry.dev ? { dev: true } : {}),
      optional: true,
      ...(os.length > 0 ? { os } : {}),
    };
    added++;
  }
}

const sorted = Object.keys(lock.packages).sort((a, b) => (a < b ? -1 : 1));
lock.packages = Object.fromEntries(sorted.map((place) => [place, lock.packages[place]]));
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
process.stderr.write(`${file}: ${added} platform packages added\n`);
