//! Products of eight-bit weight matrices and rows of floats, on rayon's threads.
//!
//! Replaces candle's, because candle has no vector code for the packing of the default model (Q4_1), and its threads
//! wait for each other by spinning: if anything else uses the same cores, an answer takes twenty times longer. Plain
//! loops that the compiler turns into vector instructions, as `-C target-cpu` permits.

use candle_core::quantized::QTensor;
use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

/// Number of weights that share a scale.
const BLOCK_WEIGHTS: usize = 32;
/// Number of partial sums, so that the compiler emits vector instructions.
const SUM_LANES: usize = 16;
/// Number of input rows from which weights are unpacked once and multiplied as floats, which is faster then.
const MIN_FLOAT_ROWS: usize = 16;
/// Number of weights below which another thread costs more than it gains.
const WEIGHTS_PER_THREAD: usize = 1 << 19;

/// A matrix with one row per output.
pub(crate) struct Matrix {
    columns: usize,
    weights: Vec<i8>,
    scales: Vec<f32>,
}

impl Matrix {
    /// Repacks a matrix of a file. Eight bits hold the four-bit values of the file with a rounding error far below that
    /// of the file.
    pub(crate) fn new(source: &QTensor) -> Result<Matrix> {
        let (_, columns) = source.shape().dims2()?;
        if columns == 0 || !columns.is_multiple_of(BLOCK_WEIGHTS) {
            candle_core::bail!("rows of {columns} weights are not supported, only multiples of {BLOCK_WEIGHTS}");
        }
        let values = source.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?;
        let (weights, scales) = pack_values(&values);
        Ok(Matrix { columns, weights, scales })
    }

    /// Number of outputs.
    pub(crate) fn row_count(&self) -> usize {
        self.weights.len() / self.columns
    }

    /// Unpacks row `index` into `row`; `false` if there is no such row.
    pub(crate) fn unpack_row(&self, index: usize, row: &mut [f32]) -> bool {
        let at = index * self.columns;
        let Some(weights) = self.weights.get(at..at + self.columns) else { return false };
        unpack_values(weights, &self.scales[at / BLOCK_WEIGHTS..], row);
        true
    }

    /// Multiplies the matrix with `count` rows of input.
    pub(crate) fn apply(&self, input: &[f32], count: usize) -> Result<Vec<f32>> {
        if count >= MIN_FLOAT_ROWS {
            return self.apply_as_floats(input, count);
        }
        let rows = self.row_count();
        let mut output = vec![0.0; count * rows];
        for (input, output) in input.chunks(self.columns).zip(output.chunks_mut(rows)) {
            let (input, scales) = pack_values(input);
            let threads = rayon::current_num_threads().min(1 + self.weights.len() / WEIGHTS_PER_THREAD);
            let share = rows.div_ceil(threads);
            output.par_chunks_mut(share).enumerate().for_each(|(part, outputs)| {
                for (index, output) in outputs.iter_mut().enumerate() {
                    let at = (part * share + index) * self.columns;
                    let weights = &self.weights[at..at + self.columns];
                    *output = dot_packed(weights, &self.scales[at / BLOCK_WEIGHTS..], &input, &scales);
                }
            });
        }
        Ok(output)
    }

    fn apply_as_floats(&self, input: &[f32], count: usize) -> Result<Vec<f32>> {
        let rows = self.row_count();
        let mut floats = vec![0.0; self.weights.len()];
        floats.par_chunks_mut(self.columns).enumerate().for_each(|(index, row)| {
            self.unpack_row(index, row);
        });
        let weights = Tensor::from_vec(floats, (rows, self.columns), &Device::Cpu)?;
        let input = Tensor::from_slice(input, (count, self.columns), &Device::Cpu)?;
        input.matmul(&weights.t()?)?.flatten_all()?.to_vec1()
    }
}

fn pack_values(values: &[f32]) -> (Vec<i8>, Vec<f32>) {
    let mut weights = vec![0; values.len()];
    let mut scales = vec![0.0; values.len() / BLOCK_WEIGHTS];
    let blocks = values.chunks_exact(BLOCK_WEIGHTS).zip(weights.chunks_exact_mut(BLOCK_WEIGHTS)).zip(&mut scales);
    for ((values, weights), scale) in blocks {
        let largest = values.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        *scale = largest / 127.0;
        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        for (weight, value) in weights.iter_mut().zip(values) {
            *weight = (value * inverse).round() as i8;
        }
    }
    (weights, scales)
}

fn unpack_values(weights: &[i8], scales: &[f32], values: &mut [f32]) {
    for ((weights, scale), values) in
        weights.chunks_exact(BLOCK_WEIGHTS).zip(scales).zip(values.chunks_exact_mut(BLOCK_WEIGHTS))
    {
        for (weight, value) in weights.iter().zip(values) {
            *value = f32::from(*weight) * scale;
        }
    }
}

/// Sixteen sums of two products each are one instruction on every vector unit.
fn dot_packed(left: &[i8], left_scales: &[f32], right: &[i8], right_scales: &[f32]) -> f32 {
    let mut sums = [0f32; SUM_LANES];
    let blocks = left.as_chunks::<BLOCK_WEIGHTS>().0.iter().zip(right.as_chunks::<BLOCK_WEIGHTS>().0);
    for ((left, right), (a, b)) in blocks.zip(left_scales.iter().zip(right_scales)) {
        let scale = a * b;
        for (lane, sum) in sums.iter_mut().enumerate() {
            let product = |at: usize| i32::from(left[at]) * i32::from(right[at]);
            *sum += (product(2 * lane) + product(2 * lane + 1)) as f32 * scale;
        }
    }
    sums.iter().sum()
}

/// The dot product of two rows of floats.
pub(crate) fn dot_floats(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0f32; SUM_LANES];
    for (left, right) in left.as_chunks::<SUM_LANES>().0.iter().zip(right.as_chunks::<SUM_LANES>().0) {
        for lane in 0..SUM_LANES {
            // Not `mul_add`, which is a function call on processors without that instruction.
            sums[lane] += left[lane] * right[lane];
        }
    }
    let done = left.len() / SUM_LANES * SUM_LANES;
    let rest: f32 = left[done..].iter().zip(&right[done..]).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use candle_core::quantized::GgmlDType;

    use super::*;

    #[test]
    fn one_row_and_many_rows_agree_with_the_plain_product() {
        let (rows, columns) = (40, 64);
        let weights: Vec<f32> = (0..rows * columns).map(|i| ((i * 7919) % 201) as f32 / 100.0 - 1.0).collect();
        let tensor = Tensor::from_slice(&weights, (rows, columns), &Device::Cpu).unwrap();
        let matrix = Matrix::new(&QTensor::quantize(&tensor, GgmlDType::F32).unwrap()).unwrap();
        assert_eq!(matrix.row_count(), rows);
        let count = 20;
        let input: Vec<f32> = (0..count * columns).map(|i| ((i * 104_729) % 101) as f32 / 50.0 - 1.0).collect();
        let many = matrix.apply(&input, count).unwrap();
        for index in 0..count {
            let input = &input[index * columns..(index + 1) * columns];
            let one = matrix.apply(input, 1).unwrap();
            for row in 0..rows {
                let plain: f32 = dot_floats(&weights[row * columns..(row + 1) * columns], input);
                assert!((one[row] - plain).abs() < 0.15, "{} {plain}", one[row]);
                assert!((many[index * rows + row] - plain).abs() < 0.15, "{} {plain}", many[index * rows + row]);
            }
        }
        let mut row = vec![0.0; columns];
        assert!(matrix.unpack_row(rows - 1, &mut row) && !matrix.unpack_row(rows, &mut row));
    }
}
