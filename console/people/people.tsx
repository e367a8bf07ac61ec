import { View } from '../parts/card.tsx';

export function People() {
  return <View title="People">Placeholder</View>;
}
