import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// Loaded before server-memory: a memory of its own for each process, with something in it.
const file = join(tmpdir(), `memory-${process.pid}.jsonl`);
const ada = { type: 'entity', name: 'Ada', entityType: 'person', observations: ['wrote the first program'] };
writeFileSync(file, `${JSON.stringify(ada)}\n`);
process.env.MEMORY_FILE_PATH = file;
