import { writeFileSync } from 'node:fs';
import { createConfigJsonSchema } from '../build/config/schema/json-schema.js';

const target = new URL('../dist/ambit.schema.json', import.meta.url);
writeFileSync(target, `${JSON.stringify(createConfigJsonSchema(), null, 2)}\n`);
