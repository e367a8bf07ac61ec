import { useRequest } from '../api/use-request.ts';
import { View } from '../parts/card.tsx';
import { Answer } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { CallTester } from './call-tester.tsx';
import { RuleList, ServerRestrictions } from './rule-list.tsx';
import './rules.css';

/** The rules for tools, and a test of what they mean for one call. */
export function Rules() {
  const rules = useRequest('GET /api/v1/rules');
  return (
    <View title="Rules">
      <CallTester />
      <Answer of={rules}>
        {(answer) => (
          <>
            <RuleList rules={answer.rules} />
            <ServerRestrictions servers={answer.servers} />
            <SameData command="ambit rule list --json" path="/api/v1/rules" />
          </>
        )}
      </Answer>
    </View>
  );
}
