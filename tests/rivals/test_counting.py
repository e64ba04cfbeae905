import unittest

from counting import Run, count_duplicates, count_lost, format_table, sum_up

ONCE = {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}


class Counting(unittest.TestCase):
    def test_an_undisturbed_run_has_nothing_to_report(self):
        run = Run(has_ended=True, received=ONCE)
        self.assertEqual((count_duplicates(run), count_lost(run)), (0, 0))

    def test_each_post_beyond_the_first_is_a_duplicate(self):
        run = Run(has_ended=True, received=ONCE | {2: 3, 4: 2})
        self.assertEqual(count_duplicates(run), 3)

    def test_a_decision_allows_one_more_post_of_its_step_only(self):
        decided = Run(has_ended=True, received=ONCE | {2: 2}, decisions={7: (2, True)})
        self.assertEqual(count_duplicates(decided), 0)
        other = Run(has_ended=True, received=ONCE | {3: 2}, decisions={7: (2, True)})
        self.assertEqual(count_duplicates(other), 1)
        supplied = Run(has_ended=True, received=ONCE | {2: 2}, decisions={7: (2, False)})
        self.assertEqual(count_duplicates(supplied), 1)

    def test_a_step_is_lost_only_if_the_run_says_that_it_has_ended(self):
        received = {1: 1, 2: 1, 3: 1}
        self.assertEqual(count_lost(Run(has_ended=True, received=received)), 2)
        stuck = Run(has_ended=False, received=received)
        self.assertEqual((count_lost(stuck), sum_up([stuck])["stuck runs"]), (0, 1))

    def test_the_table_relates_figures_to_kills(self):
        runs = [Run(kills=3, has_ended=True, received=ONCE | {1: 2}), Run(kills=1, has_ended=True, received=ONCE)]
        self.assertIn("| program | kills | runs | duplicates |", format_table({"X": runs}))
        self.assertIn("| X | 4 | 2 | 1 (25) | 0 | 0 | 0 |", format_table({"X": runs}))


if __name__ == "__main__":
    unittest.main()
