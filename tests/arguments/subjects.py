"""One call that works of every public function and class that takes arguments: tests change one argument of it."""

import importlib.util
import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np

import arena
import attention
import lower
import lwe
import lwe.costs
import paper_checks
import runs
import sq
import studies
import upper
import upper.baselines
import upper.linear_attention as linear
import upper.newton
import upper.six_phase as phases
from attention import BooleanInputs, ExampleOracle, GroundTruth, Recorder
from attention.conversion import Projections
from sq.johnson import OverlapGram

PACKAGES = [
    attention,
    upper,
    upper.baselines,
    upper.newton,
    linear,
    phases,
    lower,
    sq,
    lwe,
]
PACKAGES += [lwe.costs, runs, studies, arena, paper_checks]
# made by the toolkit and handed to users: what was computed, and what others derive from
RECORDS = """
    Fit Step Inputs Learner AffineHull AttentionSpan NetSearch ProjectionSum SixPhases Family
    Verification Option constructor option register CurvePoint SQFamily SQOracle ProfileFamily TargetFamily Attack
    AttackResult Attempt Cost Distribution Result Status Parameters Finding Row StudyResult Attacked
    Cell Budgets Inspection LWRPoint Learned
    QueriedPhases Results LearnerEntry Target ClaimResult Comparison
    Run Study Interval Reductions StoredSamples
"""
# minutes of work, or files and processes: held through the command line, or by the tests of their package
ELSEWHERE = """
    compare attack draw_phases save_phases queried_phases samples_of run_study
    load_result
    study_text write_study write_index claim run_claim run_claims LWRCell
    given returned single_thread main run Store find_studies load_result run_study write_study Interval at_least at_most
    may_be_at_most surely_above surely_below close covers equal convert_torch_module
    attention_layer_examples
    PoolOracle fingerprint showing
"""

RNG = np.random.default_rng(0)
TWO, THREE = np.ones((2, 2)), np.eye(3)
LAYER, INPUTS = attention.make_nice_layer(heads=2, dim=3, rng=0), BooleanInputs(2, 3)
X, Y = ExampleOracle(LAYER, INPUTS, rng=0).draw(60)
SUM = np.asarray(LAYER.w.sum(axis=0))
TENSOR = np.ones((1, 2, 2, 2))
VALUES = Y.sum(axis=1)
MOMENTS = linear.FeatureMoments(linear.feature_count(3), 3)
MOMENTS.add(X, VALUES)
REGRESSION = linear.regress(X, VALUES)
MAPS = dict.fromkeys(("query", "key", "value", "output"), THREE)
PARITY = sq.ParityFamily(dim=5, bits=2, construction="B")
INSTANCE = PARITY.instance(1)
ZERO = lower.LinearKnownPart.zero(2, 3)
GRAM = sq.gram_matrix(PARITY)
KERNEL = OverlapGram(sq.SecretSet(dim=6, bits=2), (0, 0, 0.5))
SECRETS = sq.SecretSet(dim=6, bits=2)
CELL = sq.CurveCell(learner="exhaustive", dim=5, bits=2, tolerance=0.3)
SMALL = lwe.LWEParameters(n=4, q=8, p=2)
SAMPLES, _ = lwe.make_samples(SMALL, 60, rng=0)
LWR_FAMILY = lwe.LWRFamily.of(SMALL)
LWR = LWR_FAMILY.instance(rng=0)
LWR_X, LWR_Y = LWR_FAMILY.examples(LWR, rng=0).draw(9)
FORM = np.array([1, -2, 3, 0])
CLAIM = paper_checks.all_claims()[0]
TARGET = arena.nice_target(heads=1, tokens=2, dim=3)
SHAPE = {"heads": 3, "dim": 4}


def oracle():
    return ExampleOracle(LAYER, INPUTS, rng=0)


def ones(x, *labels):
    return np.ones(len(x))


@cache
def body():
    return phases.sculpt_affine_hull(oracle(), SUM, wide=1, accept=0.2, examples=400).body


def subjects(folder: Path) -> list[partial]:
    """The calls; files are read from the folder and written there."""
    made, arrays, model = folder / "made.safetensors", folder / "x.npy", folder / "model.safetensors"
    attention.save_layer(folder / "layer.safetensors", LAYER, inputs=INPUTS)
    lower.save_instance(folder / "instance.safetensors", INSTANCE)
    linear.save_linear_attention(model, linear.make_linear_attention(heads=1, dim=2, rng=0))
    np.save(arrays, SAMPLES.public)
    np.save(folder / "y.npy", SAMPLES.labels)
    return [
        # attention
        partial(attention.AttentionLayer, theta=TWO[None], w=TWO[None]),
        partial(LAYER.map, convert=np.asarray),
        partial(attention.BooleanInputs, tokens=2, dim=3),
        partial(attention.GaussianInputs, tokens=2, dim=3),
        partial(attention.SphereInputs, tokens=2, dim=3),
        partial(attention.SliceInputs, blocks=[2], weights=[[1]]),
        partial(attention.MarkedInputs, inputs=INPUTS, positions=np.ones((2, 1))),
        partial(attention.PositionedInputs, inputs=INPUTS, positions=np.ones((2, 3))),
        partial(INPUTS.sample, n=2, rng=0),
        partial(attention.ExampleOracle, target=LAYER, inputs=INPUTS),
        partial(attention.ValueOracle, target=LAYER, tokens=2),
        partial(attention.ValueOracle.from_callable, f=LAYER, tokens=2, dim=LAYER.dim),
        partial(attention.AnswerPrecision),
        partial(upper.ByQueries, heads=2),
        partial(upper.certify_layer, layer=LAYER, x=X),
        partial(ExampleOracle.from_arrays, x=TWO[None], y=TWO[None]),
        partial(oracle().split, workers=2),
        partial(oracle().draw, n=2),
        partial(attention.GroundTruth, layer=LAYER, x=np.ones((1, 2, 3))),
        partial(GroundTruth.draw, layer=LAYER, inputs=INPUTS),
        partial(Recorder, oracle=oracle()),
        partial(attention.attention_pattern, logits=TWO),
        partial(attention.check_budget, learner=upper.Newton(heads=1, examples=10**4), oracle=oracle()),
        partial(attention.check_conditions, layer=LAYER),
        partial(attention.draw_examples, oracle=oracle(), n=2),
        partial(attention.load_layer, path=folder / "layer.safetensors"),
        partial(attention.make_nice_layer, **SHAPE),
        partial(attention.make_diagonal_layer, **SHAPE),
        partial(attention.make_block_diagonal_layer, **SHAPE, block=2),
        partial(attention.make_low_rank_layer, **SHAPE, rank=2),
        partial(attention.make_close_heads_layer, **SHAPE, gap=0.5),
        partial(attention.make_repeated_singular_values_layer, **SHAPE),
        partial(attention.make_affinely_dependent_layer, **SHAPE),
        partial(attention.make_transformer_shaped_layer, **SHAPE, rank=2),
        partial(attention.parameter_errors, fitted=LAYER, truth=LAYER),
        partial(attention.relative_error, predicted=X, target=Y),
        partial(attention.unknown_part_error, predicted=X, target=Y, known=None),
        partial(attention.read_checkpoint_layer, path="none", layer=0, heads=2),
        partial(attention.conversion.convert_projections, projections=Projections(**MAPS), heads=1),
        partial(Projections, **MAPS),
        partial(attention.files.read_arrays, path="none", names=["a"]),
        partial(attention.files.read_tensors, path="none", kind="some"),
        partial(attention.files.write_tensors, path=made, kind="some", tensors={}, metadata={}),
        partial(attention.save_layer, path=made, layer=LAYER),
        partial(attention.sinusoidal_positions, tokens=2, dim=3),
        partial(attention.write_examples, path=made, x=X, y=Y),
        # learners
        *(partial(one, heads=2) for one in (upper.LBFGS, upper.GradientDescent, upper.Newton)),
        *(partial(one) for one in (upper.KnownPart, upper.LinearAttentionLearner)),
        *(partial(one) for one in (upper.LinearBaseline, upper.OneGradientStep, upper.choose_engine)),
        partial(upper.SixPhase, heads=2),
        partial(upper.counting_floor, heads=1, tokens=2, dim=3),
        partial(upper.gauss_newton, x=X, y=Y, start=THREE[None], rng=RNG),
        # linear attention
        partial(linear.FeatureMoments, features=2, outputs=2),
        partial(linear.LinearAttention, v=TWO[None], q=TWO[None]),
        partial(linear.another_minimiser, regression=REGRESSION, certificate=linear.certify(X, X), on_domain=False),
        partial(linear.certify, data=X, domain=X),
        partial(linear.cubic_features, x=X),
        partial(linear.cubic_kernel, x=X, other=X),
        partial(linear.exact_rank, tokens="gaussian", dim=2, n=3),
        partial(linear.population_moment, tokens="gaussian", dim=2, n=3),
        partial(linear.feature_count, dim=2),
        partial(linear.feature_moment, x=X),
        partial(linear.features_from_tensor, tensor=TENSOR),
        partial(linear.first_independent, x=X),
        partial(linear.fit_heads, regression=linear.regress(X[:, :, :2], VALUES[:, :1]), rng=0),
        partial(linear.heads_of_tensor, tensor=TENSOR),
        partial(linear.load_linear_attention, path=model),
        partial(linear.make_linear_attention, heads=1, dim=2),
        partial(linear.regress, x=X, y=VALUES),
        partial(linear.regress_moments, moments=MOMENTS),
        partial(linear.save_linear_attention, path=made, model=linear.load_linear_attention(model)),
        partial(linear.softmax_features, x=X, kind="plain"),
        partial(linear.symmetric_rank, tensor=TENSOR),
        partial(linear.tensor_from_features, coefficients=np.ones((linear.feature_count(2), 1)), dim=2),
        partial(linear.train_linear_attention, x=X, y=VALUES, heads=1, steps=2),
        # the six phases
        partial(phases.Net, spacing=0.1),
        partial(phases.attention_span, body=body()),
        partial(phases.estimate_projection_sum, oracle=oracle(), n=20),
        partial(phases.refine_by_consistency, oracle=oracle(), projection_sum=SUM, examples=300),
        partial(phases.refine_by_margin, oracle=oracle(), body=body(), examples=300),
        partial(phases.sculpt_affine_hull, oracle=oracle(), projection_sum=SUM, wide=1, accept=0.2, examples=400),
        partial(phases.search_net, x=X[:24], y=Y[:24], span=phases.attention_span(body())),
        partial(phases.six_phase_queries, tokens=2, dim=3),
        # hard instances
        partial(lower.Certificate, family="coins", facts=INSTANCE.certificate.facts),
        partial(lower.GatedKnownPart, gate=0, on=ZERO, off=ZERO),
        partial(lower.HardInstance, **{one: getattr(INSTANCE, one) for one in lower.HardInstance.__dataclass_fields__}),
        partial(lower.Heads, form=[0, 1, 1], thresholds=[1.0], coefficients=[1.0], slopes=[1.0]),
        partial(lower.LinearKnownPart, mixing=TWO, projection=THREE),
        partial(lower.LinearKnownPart.zero, tokens=2, dim=3),
        partial(lower.LinearKnownPart.from_gate, c=1.0, c0=0.0, gate=0, direction=THREE[0]),
        partial(lower.SecretPairs, chances=[1], correlations=[[0, 0.5]]),
        partial(lower.SecretPairs([1], [[0, 0.5]]).squared_advantage, samples=3),
        partial(lower.Fact, key=lower.Key.TARGETS, value=2, status=lower.Status.PROVED, source="by counting"),
        partial(lower.all_sign_matrices, tokens=2, dim=2),
        partial(lower.load_instance, path=folder / "instance.safetensors"),
        partial(lower.query_lower_bound, targets=5, tolerance=0.3),
        partial(lower.save_instance, path=made, instance=INSTANCE),
        partial(lower.solve_gf2, matrix=THREE, bits=THREE[0]),
        partial(lower.verify_instance, instance=INSTANCE),
        # statistical queries
        *(partial(one, tolerance=0.3) for one in (sq.CSQ, sq.STAT, lower.eliminated_per_query)),
        partial(sq.VSTAT, examples=5),
        partial(sq.ProfileFamily.bump, dim=6, bits=4),
        partial(sq.ProfileFamily.centre_threshold, dim=6, bits=4),
        partial(sq.ProfileFamily.designed_steps, dim=8, bits=6),
        partial(sq.HiddenGateFamily, base=sq.ParityFamily(dim=5, bits=3)),
        partial(sq.PairFamily, dim=4),
        partial(sq.ParityFamily, dim=5),
        partial(sq.TokenParityFamily, dim=5),
        partial(sq.ProfileFamily.two_slope, dim=6, bits=4),
        partial(PARITY.instance, number=0),
        partial(PARITY.hidden, number=0, x=BooleanInputs(2, 5).sample(3, rng=0)),
        partial(sq.SecretSet, dim=6, bits=2),
        partial(SECRETS.unrank, number=0),
        partial(SECRETS.rank, secret=[1, 2]),
        partial(SECRETS.overlaps, secret=[1, 2]),
        partial(sq.CorrelationalQuery, function=ones),
        partial(sq.StatisticalQuery, function=ones),
        partial(sq.GroupQuery, numbers=np.array([0]), weights=np.array([1.0])),
        partial(sq.CurveCell, learner="exhaustive", dim=5, bits=2, tolerance=0.3),
        partial(sq.measure_cell, cell=CELL),
        partial(sq.curve_cells, dims=[5], bits=[2], tolerances=[0.3]),
        *(partial(one) for one in (sq.GroupLearner, sq.SignedGroupLearner, sq.ExhaustiveSearch)),
        partial(sq.ParityElimination),
        partial(sq.PeriodicLattice, family=sq.PeriodicFamily(dim=8)),
        partial(sq.PeriodicFamily, dim=8),
        partial(sq.ExactOracle, model=sq.CSQ(0.3), family=PARITY, number=0),
        partial(sq.MostPreservingAdversary, model=sq.CSQ(0.3), family=PARITY),
        partial(sq.ReferenceAdversary, model=sq.CSQ(0.3), family=PARITY),
        partial(sq.HonestOracle, model=sq.STAT(0.3), instance=INSTANCE, batch=9),
        partial(sq.gram_matrix, family=PARITY),
        partial(sq.group_learner_bound, targets=5, tolerance=0.3),
        partial(sq.make_parity_instance, dim=5),
        partial(sq.parity_heads, construction="D", bits=2),
        partial(sq.sq_dimension, gram=GRAM, correlation=0.3),
        partial(sq.statistical_dimension, gram=KERNEL, correlation=0.3),
        partial(sq.two_head_families),
        partial(sq.vstat_calls, gram=KERNEL, samples=5),
        # learning with rounding
        *(partial(type(one)) for one in lwe.ATTACKS.values()),
        partial(lwe.AttackLearner, attack=lwe.LinearisationAttack(), parameters=SMALL),
        partial(lwe.LearnerAttack, learner=upper.LinearBaseline()),
        partial(lwe.EmbeddingAttack),
        partial(lwe.Budget),
        partial(lwe.CentredBinomial, eta=2),
        partial(lwe.Flips, rate=0.1),
        partial(lwe.DiscreteGaussian, sigma=1.0),
        partial(lwe.SparseSigned, hamming_weight=2),
        partial(lwe.SparseBinary, hamming_weight=2),
        partial(lwe.SparseTernary, p=2, r=1),
        partial(lwe.Interval, low=-2, high=2),
        partial(lwe.parse_distribution, text="binomial:2"),
        partial(lwe.Uniform().draw, size=3, modulus=8),
        partial(lwe.LWRFamily, n=4, q=8, p=2),
        partial(lwe.LWEParameters, n=4, q=8, p=2),
        partial(lwe.LWRSamples, public=SAMPLES.public, labels=SAMPLES.labels),
        partial(lwe.distinguish, learner=lwe.LinearisationAttack(), parameters=SMALL, runs=1, examples=80, fresh=10),
        partial(lwe.estimate, parameters=SMALL),
        partial(lwe.make_samples, parameters=SMALL, number=5),
        partial(lwe.read_samples, path=arrays, parameters=SMALL, labels_path=folder / "y.npy"),
        partial(lwe.save_samples, path=folder / "s.npz", samples=SAMPLES, parameters=SMALL),
        partial(lwe.known_reductions, parameters=SMALL),
        partial(lwe.rejected_samples, samples=SAMPLES, modulus=8, levels=4),
        partial(lwe.rounded_samples, samples=SAMPLES, modulus=8, levels=2),
        partial(lwe.small_row_samples, samples=SAMPLES, parameters=lwe.LWEParameters(12, 8, 8)),
        partial(lwe.samples_from_examples, x=LWR_X, y=LWR_Y, parameters=SMALL),
        # the engine and the toolkit
        partial(arena.checkpoint_target, path="none", layer=0),
        partial(arena.family_target, family=PARITY),
        partial(arena.inspect, target=TARGET),
        partial(arena.instance_target, name="mine", instance=INSTANCE, made={}),
        partial(arena.layer_target, layer=LAYER, tokens=2),
        partial(arena.learn, source=TARGET, learner="known-part"),
        partial(arena.load_target, path=folder / "layer.safetensors"),
        partial(arena.lwr_target, n=3, q=4, p=2),
        partial(arena.nice_target, heads=1, tokens=2, dim=3),
        partial(arena.parity_target, dim=5),
        partial(arena.preset_targets),
        partial(arena.save_target, path=made, target=TARGET),
        # checks of the paper
        partial(paper_checks.Claim, id="my/claim", source="Me.", basis=CLAIM.basis, run=CLAIM.run, fault=CLAIM.fault),
        partial(paper_checks.Fault, target="attention.layer:attention_pattern", by=abs, says="One."),
        partial(paper_checks.find_claims, names=["layer/*"]),
    ]  # fmt: skip


CALLS = subjects(Path(tempfile.mkdtemp()))
if importlib.util.find_spec("torch") is None:  # they need it before they look at much
    NEEDS_TORCH = ("train_linear_attention", "choose_engine")
    CALLS = [one for one in CALLS if one.func.__name__ not in NEEDS_TORCH]
    ELSEWHERE += " ".join(["", *NEEDS_TORCH])
