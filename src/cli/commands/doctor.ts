import { existsSync } from 'node:fs';
import { type Command, jsonFlag } from '../command.ts';
import { examine } from '../doctor/examine.ts';
import { print } from '../io/output.ts';
import { configOf, placesOf } from '../io/places.ts';
import { showExamination } from '../io/show-examination.ts';

export const doctorCommand: Command = {
  path: ['doctor'],
  help: 'what this machine can do, and what mends what it cannot; exit 1 when something is missing',
  flags: { json: jsonFlag },
  async run(invocation) {
    const places = placesOf(invocation);
    const store = existsSync(places.configFile) ? (await configOf(places)).store : { kind: 'sqlite' as const };
    const examination = await examine({ store, dataDir: places.dataDir });
    print(invocation, examination, () => showExamination(examination));
    return examination.ok ? 0 : 1;
  },
};
