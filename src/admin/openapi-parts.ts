import { z } from 'zod';

export const nullableText = { type: ['string', 'null'] };
export const texts = { type: 'array', items: { type: 'string' } };
export const instant = { type: 'string', format: 'date-time' };

export function answers(status: number, description: string, schema: object, type = 'application/json') {
  const problem = {
    description: 'Refused',
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  };
  return { [status]: { description, content: { [type]: { schema } } }, default: problem };
}

export function taking(shape: z.ZodType) {
  const { $schema: _, ...schema } = z.toJSONSchema(shape, { io: 'input' });
  return { required: true, content: { 'application/json': { schema } } };
}

export function query(name: string, description: string, type = 'string') {
  return { name, in: 'query', required: false, schema: { type }, description };
}
