// Writes the request pipeline into ARCHITECTURE.md from the code; with --check, only tells whether it is current.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = new URL('../', import.meta.url);
const [start, end] = ['<!-- pipeline: written by scripts/describe-pipeline.js -->', '<!-- end of pipeline -->'];

/** The table of stages: order, file, direction and refusals from a real gateway, the reason from the source of the list. */
async function describePipeline() {
  const list = await readStages();
  const source = readFileSync(new URL('src/gateway/pipeline.ts', root), 'utf8');
  const rows = [...list.stages, { name: 'forward', refuses: list.refuses }].map((stage, index) => {
    const { file, reason } = findInSource(source, stage.name);
    const refuses = stage.refuses.map((code) =>
      typeof code === 'number' ? `${code}`.replace('-', '−') : `\`${code}\``,
    );
    const cells = [
      index + 1,
      `[${stage.name}](src/gateway/${file})`,
      directionOf(stage),
      reason,
      refuses.join(', ') || '–',
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return ['| # | stage | kind | why here | refuses with |', '|---|---|---|---|---|', ...rows].join('\n');
}

/** The page with the table in its place. */
function withPipeline(page, table) {
  const [from, to] = [page.indexOf(start), page.indexOf(end)];
  if (from === -1 || to === -1) throw new Error('ARCHITECTURE.md has no place for the pipeline');
  return `${page.slice(0, from)}${start}\n${table}\n${page.slice(to)}`;
}

async function readStages() {
  const { openGateway } = await import('../build/gateway/assembly/open-gateway.js');
  const { loadConfig } = await import('../build/config/load/load.js');
  const folder = mkdtempSync(join(tmpdir(), 'ambit-pipeline-'));
  const configFile = join(folder, 'ambit.yaml');
  const { config } = await loadConfig({ text: '{"version":1,"store":{"kind":"memory"}}', file: configFile });
  let found;
  const arrangeStages = (list) => {
    found = list;
    return list;
  };
  const log = { info() {}, warn() {} };
  const gateway = await openGateway({ config, configFile, dataDir: join(folder, 'data'), log, arrangeStages });
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
  return found;
}

function findInSource(source, name) {
  const file = new RegExp(`import \\{[^}]*\\b${name}\\b[^}]*\\} from '\\./(.+)';`).exec(source)?.[1];
  const reason = new RegExp(`// (.+)\\n\\s+\\.(?:use|end)\\(${name}\\b`).exec(source)?.[1];
  if (file === undefined || reason === undefined) throw new Error(`pipeline.ts says no file or reason for ${name}`);
  return { file, reason };
}

function directionOf(stage) {
  return ['before', 'after', 'around'].find((direction) => direction in stage) ?? 'end';
}

const file = new URL('ARCHITECTURE.md', root);
const page = readFileSync(file, 'utf8');
const current = withPipeline(page, await describePipeline());
if (!process.argv.includes('--check')) writeFileSync(file, current);
else if (page !== current) {
  console.error('ARCHITECTURE.md does not show the pipeline as it is: run node scripts/describe-pipeline.js');
  process.exitCode = 1;
}
